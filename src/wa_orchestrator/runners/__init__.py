"""Where workers run. One port, several ways: local processes, containers."""
