"""Read batch headers, in parallel: what the log itself says before a plan can be made.

Nothing here parses a record or changes a file.
"""
