"""Backups of all sessions, their restore, and the move of one session to another server."""
