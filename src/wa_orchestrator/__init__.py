"""WhatsApp Orchestrator: looks after many WhatsApp accounts, one isolated worker and one fixed exit address each."""

__version__ = "0.1.0"
