"""All access to a file system, HDFS or S3 (`contract.Storage`). Nothing here knows Kafka."""
