"""From a phone's queue into its outbox: routing, pacing and retrying are pure functions; thin loops act on them."""
