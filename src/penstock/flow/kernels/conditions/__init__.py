"""Comparisons, logic, conditions and constraints."""
