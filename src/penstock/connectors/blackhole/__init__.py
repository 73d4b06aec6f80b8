"""The ``blackhole`` connector: a sink that takes every row and keeps none."""
