"""The three indexes of a segment: offsets, timestamps and aborted transactions. They are read,
checked against batches, and built here as Kafka builds them. Nothing here decides what is cleaned.
"""
