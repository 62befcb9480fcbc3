"""`spark.read.format("kafka-log")`: segment files as a DataFrame."""
