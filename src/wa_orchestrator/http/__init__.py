"""The HTTP side: what people and programs call. Hot routes stand in front, everything else is FastAPI."""
