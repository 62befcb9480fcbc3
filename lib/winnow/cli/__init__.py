"""Verbs, options and exit codes. No logic: this package calls `api` and shows the answer."""
