"""Decide what happens to each partition, and describe it.

Kafka's rules are in `policy`. Here they are combined with settings, free space and what a crash
left.
"""
