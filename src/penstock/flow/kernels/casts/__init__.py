"""CAST and TRY_CAST."""
