"""The kill test: every part is killed with -9 at random times while messages flow; then the ledger is drawn up."""
