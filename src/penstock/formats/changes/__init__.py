"""The shared parts of the change data formats, whose messages say which rows were inserted, updated and deleted."""
