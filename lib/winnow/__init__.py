"""Winnow cleans Apache Kafka log directories without a broker: retention and compaction as a Spark batch job."""
