"""The built-in functions. Each module is a group of the reference: its ``FUNCTIONS`` tell all that there is to know of
each, and name the kernel that computes it, where that takes more than a few lines. Every module here is loaded."""
