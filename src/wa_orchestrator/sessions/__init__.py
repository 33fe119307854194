"""The registry of sessions: making them, keeping them running, ending them."""
