"""Tests on a real Docker engine."""
