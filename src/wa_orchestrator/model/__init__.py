"""The nouns of the system. No input or output happens here."""
