"""Kernels: the functions of Flink SQL on Arrow columns, with the results of Spark in ANSI mode.

A function has a kernel only for the types of arguments for which all results are the same.
"""
