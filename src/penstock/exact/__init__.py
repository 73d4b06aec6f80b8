"""Exact, slow conversions from text to values and back, for what compiled loops leave to them."""
