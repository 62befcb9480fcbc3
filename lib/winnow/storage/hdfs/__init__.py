"""HDFS behind the storage contract."""
