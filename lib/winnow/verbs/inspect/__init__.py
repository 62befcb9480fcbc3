"""Show the content of Kafka's files as values. Needs no Spark and no lock."""
