"""Arithmetic and functions of numbers."""
