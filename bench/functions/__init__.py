"""Python functions on streams: penstock beside PyFlink."""
