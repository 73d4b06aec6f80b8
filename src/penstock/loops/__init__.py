"""The parts of compiled loops: numbers, texts, moments and bytes, without a Python object per value."""
