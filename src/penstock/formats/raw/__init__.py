"""The ``raw`` format: a message is the value of the only column."""
