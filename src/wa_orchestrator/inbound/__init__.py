"""What people write to the sessions: conversations, and the files that came with it."""
