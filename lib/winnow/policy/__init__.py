"""Kafka's rules as pure functions over values: no disk, no clock, no Spark.

Rule numbers (S5.4) are sections of docs/semantics.md.
"""
