"""Arrow columns as the buffers that compiled loops read and fill."""
