"""Remove all records of some keys, and prove it by reading everything again."""
