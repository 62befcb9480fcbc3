"""Change the log directory: the driver's work, under the lock.

It receives verified files and does not know how they were made.
"""
