"""Responsible sending: who wants no messages, how they say so, and what may be sent to whom."""
