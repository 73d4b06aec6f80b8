"""Queries in expressions and conditions."""
