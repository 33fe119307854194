"""Notices workers that live but do not work: silent, or connected but deaf."""
