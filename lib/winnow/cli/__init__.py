"""Verbs, options and exit codes. No logic: it asks `api` and shows the answer."""
