"""Expressions and select lists: names, types, functions and constants."""
