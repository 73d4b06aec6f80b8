"""Nexmark: an auction as three topics of events, and the queries q0 to q22 over them in Flink SQL."""
