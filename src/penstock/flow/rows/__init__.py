"""Rows inside tasks: expressions and calculations over batches, user functions, and UNNEST."""
