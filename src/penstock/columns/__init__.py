"""Arrow columns as buffers: hashed, compared, sorted and summed, and filled by compiled loops."""
