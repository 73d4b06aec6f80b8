"""GROUP BY: aggregates become the columns of a node."""
