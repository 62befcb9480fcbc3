"""Prepare a cleaning beside a running broker, and commit the preparation later (S8.12)."""
