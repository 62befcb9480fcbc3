"""Change the log directory: the driver's work, under the lock. Nothing else renames or removes its
files.

It receives verified files and does not know how they were made.
"""
