"""From Flink SQL text to syntax: names are not looked up yet."""
