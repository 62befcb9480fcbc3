"""Read batch headers, in parallel: what the log itself says before a plan can be made.

Nothing here decides or changes a file. Records are read only on the way, by `scan`.
"""
