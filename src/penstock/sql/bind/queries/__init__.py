"""SELECT and its clauses."""
