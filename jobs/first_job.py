"""A Spark job with nothing to do, run once at set-up: the JVM archives the classes that every start needs."""

from pyspark.sql import SparkSession


def main() -> None:
    spark = SparkSession.builder.getOrCreate()
    numbers = spark.sparkContext.parallelize([(bucket, b"") for bucket in range(4)], 2)
    if sorted(numbers.partitionBy(2).keys().collect()) != [0, 1, 2, 3]:
        raise SystemExit(1)
    spark.stop()


if __name__ == "__main__":
    main()
