"""State: tables of operators in segments, their storage, compaction and manifest."""
