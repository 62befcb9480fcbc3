"""Say why a partition or a record stays or goes, and by which rule."""
