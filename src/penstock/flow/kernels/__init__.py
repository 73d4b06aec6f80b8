"""Kernels: the functions of Flink SQL on Arrow columns, with Flink's results."""
