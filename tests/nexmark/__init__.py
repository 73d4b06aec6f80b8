"""Nexmark's queries on a few thousand events, beside what Flink answers (recorded by ``make oracle``)."""
