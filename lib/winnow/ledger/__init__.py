"""The Delta table of past runs: its schema, one way to append, and queries."""
