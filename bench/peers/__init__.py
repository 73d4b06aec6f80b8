"""penstock beside what one would use instead."""
