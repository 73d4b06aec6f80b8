"""The built-in functions. Each module is a group of the reference: its ``FUNCTIONS`` describe each of them, and name
its kernel, where that takes more than a few lines. Every module here is loaded."""
