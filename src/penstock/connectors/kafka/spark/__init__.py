"""The kafka connector on Spark."""
