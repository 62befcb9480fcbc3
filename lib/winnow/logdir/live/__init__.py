"""Read the log directory of a running broker (S8.11)."""
