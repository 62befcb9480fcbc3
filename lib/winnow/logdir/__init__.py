"""A Kafka log directory as files: names, indexes, checkpoints, snapshots, listings, the lock.

Formats are read and checked here. What changes a log is in `logdir.commit`.
"""
