"""The ``json`` format: one JSON object per message."""
