"""The ``print`` connector: a sink that writes each row as a line of text."""
