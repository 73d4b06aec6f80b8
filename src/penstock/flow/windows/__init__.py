"""Operators over windows of time."""
