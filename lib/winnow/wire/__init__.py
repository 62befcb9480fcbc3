"""Kafka's record formats: bytes to batches and records, and back.

Knows no file, no Spark and no policy.
"""
