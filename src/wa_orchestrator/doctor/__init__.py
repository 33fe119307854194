"""Looks an installation over: what is missing or wrong, and what to do about it."""

from wa_orchestrator.doctor.checks import examine
from wa_orchestrator.doctor.finding import Finding

__all__ = ["Finding", "examine"]
