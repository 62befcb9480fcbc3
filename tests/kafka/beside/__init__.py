"""Winnow beside a broker that never rests. `python -m tests.kafka.beside` does so for an hour."""
