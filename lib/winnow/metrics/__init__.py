"""Report a run to a monitoring system as gauges, and to a data catalog as lineage events."""
