"""Packages that only some runs need. Messages name these packages and not `winnow[extra]`: the
`winnow` on PyPI is another project.
"""

from __future__ import annotations

import shlex
import sys

AVRO = "fastavro>=1.10,<2"
HDFS = "hdfs-native>=0.14,<1"
METRICS = "prometheus-client>=0.22,<1"
S3 = "obstore>=0.12,<1"


def how_to_install(requirement: str) -> str:
    """Return the pip command for the Python that runs this."""
    return shlex.join([sys.executable, "-m", "pip", "install", requirement])
