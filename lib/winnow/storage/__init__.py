"""Every effect on a file system, HDFS or S3 goes through here (`contract.Storage`).

Nothing here knows Kafka.
"""
