"""Keep a Delta table with the state of a topic: one row for each key.

    ./spark-submit.sh examples/topic_to_delta.py LOG_DIR TOPIC TABLE

The first run creates the table. Each later run merges what the topic has gained: it inserts and
updates rows, and deletes those that a tombstone deletes. A run that is repeated changes nothing.
"""

import sys

from pyspark.sql import SparkSession

import winnow


def main(log_dir: str, topic: str, table: str) -> None:
    """Merge once."""
    spark = SparkSession.builder.getOrCreate()
    target = f"delta.`{table}`"
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {target} "
        "(partition int, key string, value string, offset bigint, timestamp timestamp) USING delta"
    )
    # All records up to the largest offset of the table have been merged.
    read = {
        row.partition: row.last + 1
        for row in spark.table(target)
        .groupBy("partition")
        .agg({"offset": "max"})
        .toDF("partition", "last")
        .collect()
    }
    records = winnow.read(
        spark,
        log_dir,
        topics=topic,
        key="string",
        value="string",
        start={topic: read} if read else None,
    )
    records.where("key IS NOT NULL").createOrReplaceTempView("records")
    spark.sql(
        f"""
        MERGE INTO {target} AS old
        USING (
          SELECT partition, key, max_by(struct(value, offset, timestamp), offset) AS last
          FROM records GROUP BY partition, key
        ) AS new
        ON old.partition = new.partition AND old.key = new.key
        WHEN MATCHED AND new.last.value IS NULL THEN DELETE
        WHEN MATCHED THEN UPDATE SET
          value = new.last.value, offset = new.last.offset, timestamp = new.last.timestamp
        WHEN NOT MATCHED AND new.last.value IS NOT NULL THEN INSERT
          (partition, key, value, offset, timestamp)
          VALUES (new.partition, new.key, new.last.value, new.last.offset, new.last.timestamp)
        """  # noqa: S608 - all names are the caller's own
    )
    rows, keys = spark.table(target).count(), records.count()
    print(f"{topic}: {keys} records read, {rows} keys in {table}")  # noqa: T201 - what the caller sees


if __name__ == "__main__":
    main(*sys.argv[1:])
