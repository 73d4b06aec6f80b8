"""Mutated messages for every format: no crash, no hang, and the same answer as a second decoder gives.

``make fuzz`` runs it; see ``python -m tests.fuzz --help``.
"""
