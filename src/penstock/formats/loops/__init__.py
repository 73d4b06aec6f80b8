"""Parts that the compiled loops of several formats share."""
