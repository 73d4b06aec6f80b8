"""Event time: watermarks, windows of time and zones."""
