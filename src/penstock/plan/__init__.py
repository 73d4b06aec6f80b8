"""The plan that every front end lowers to: its nodes, their expressions, and the checks of a whole job."""
