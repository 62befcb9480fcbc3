"""What is in Kafka's files, as values. No Spark, no lock."""
