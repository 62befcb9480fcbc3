"""Find the last offset of each key: parse records, hash keys, compare hashes.

Values of records never leave this package's tasks. Keys leave them only as hashes. Nothing here
plans, writes a log or starts a Spark job.
"""
