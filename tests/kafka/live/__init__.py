"""Winnow beside a broker that never rests. `python -m tests.kafka.live` does so for an hour."""
