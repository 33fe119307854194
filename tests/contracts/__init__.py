"""What every implementation of a port must show, written once and run for each."""
