"""A request comes in, is checked, is queued, is answered."""
