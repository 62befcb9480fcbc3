"""How Python starts in Spark's workers, and what executors are sent."""
