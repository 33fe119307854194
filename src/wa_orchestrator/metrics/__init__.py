"""Numbers for Prometheus: what this process counts about itself, and what the store knows about the installation."""
