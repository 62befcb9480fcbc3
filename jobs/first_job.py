"""A small Spark job that runs once at set-up, so that the JVM archives the classes that every start
loads.
"""

import tempfile

from pyspark.sql import SparkSession

from winnow.cleaning.result import RunResult
from winnow.ledger.append import append
from winnow.ledger.history import history
from winnow.ledger.rows import cleaning


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    numbers = spark.sparkContext.parallelize([(bucket, b"") for bucket in range(4)], 2)
    if sorted(numbers.partitionBy(2).keys().collect()) != [0, 1, 2, 3]:
        raise SystemExit(1)
    with tempfile.TemporaryDirectory() as ledger:
        for run_id in ("first", "second"):  # the first creates the table, the second appends
            nothing = RunResult(run_id=run_id, verb="clean", now=0, partitions=())
            append(spark.sparkContext, ledger, cleaning(nothing, log_dirs=(), started=0, ended=0))
        if len(history(spark, ledger, since=None, topics=()).runs) != 2:
            raise SystemExit(1)
    spark.stop()


if __name__ == "__main__":
    main()
