"""What any Spark job of Winnow needs: progress, throttling, scratch files, stopping, counting.

Nothing here knows Kafka.
"""
