"""The Delta table of past runs: schema, one append, and what is read from it."""
