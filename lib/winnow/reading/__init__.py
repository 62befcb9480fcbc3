"""`winnow.read`: topics as DataFrames with typed keys and values, at any point in time.

It builds on `kafka-log`, and knows nothing of bytes in files.
"""

from winnow.reading.formats import Avro, Json
from winnow.reading.frame import read

__all__ = ["Avro", "Json", "read"]
