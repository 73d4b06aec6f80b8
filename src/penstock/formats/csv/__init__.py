"""The ``csv`` format: one line of comma-separated values per message."""
