"""Streaming state on Arrow, without Spark: the exchange, operators, and the segments that keep their state."""
