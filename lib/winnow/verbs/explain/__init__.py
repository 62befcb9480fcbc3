"""Explain why a partition or a record is kept or removed, and by which rule."""
