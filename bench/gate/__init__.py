"""The gate of jobs with state: penstock beside what one would use instead, on one broker and the same records."""
