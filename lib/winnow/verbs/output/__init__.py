"""Clean a private copy and write the result elsewhere (docs/decisions/0024)."""
