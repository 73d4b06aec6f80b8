"""Operators with state, and what an operator is."""
