"""What workers tell and ask: events, outbox claims, answers to commands."""
