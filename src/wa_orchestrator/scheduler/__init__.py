"""Daily and periodic work: remembered in the store, done once however many orchestrators run."""
