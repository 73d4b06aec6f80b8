"""Functions of arrays, maps and rows, and their parts."""
