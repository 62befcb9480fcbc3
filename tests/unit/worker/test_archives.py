"""pyspark is imported from its installed files if they equal Spark's archives."""

import subprocess
import sys
import zipfile
from pathlib import Path

import py4j
import pyspark
import pytest
from py4j.version import __version__ as py4j_version

from winnow.worker.archives import without_spare_archives

HOME = Path(pyspark.__file__).parent
PLACES = [str(HOME.parent), "/somewhere/else"]
PYSPARK = str(HOME / "python" / "lib" / "pyspark.zip")
PY4J = str(HOME / "python" / "lib" / f"py4j-{py4j_version}-src.zip")


def test_archives_of_installed_packages_are_dropped() -> None:
    (jar,) = (HOME / "jars").glob("spark-core_*.jar")
    assert Path(PYSPARK).is_file()
    assert Path(PY4J).is_file()
    assert without_spare_archives([PYSPARK, PY4J, str(jar), *PLACES]) == PLACES


@pytest.mark.parametrize(
    ("archive", "places"),
    [
        (PYSPARK, ["/somewhere/else"]),
        (PY4J, ["/somewhere/else"]),
        ("/opt/spark/python/lib/pyspark.zip", PLACES),
        ("/opt/spark/python/lib/py4j-0.10.9.5-src.zip", PLACES),
        ("/tmp/my-own.zip", PLACES),  # noqa: S108 - a name
        ("pyspark.zip", PLACES),
    ],
    ids=[
        "pyspark not installed",
        "py4j not installed",
        "another Spark",
        "another py4j",
        "a user's",
        "shipped",
    ],
)
def test_other_archives_keep_their_place(archive: str, places: list[str]) -> None:
    assert without_spare_archives([places[0], archive, *places[1:]]) == [
        places[0],
        archive,
        *places[1:],
    ]


def test_worker_process_reads_no_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "shipped.zip", "w") as shipped:
        shipped.writestr("shipped_with_the_job.py", "")
    script = (
        "from winnow.worker.archives import load_from_files\n"
        "load_from_files()\n"
        "import sys, pyspark.worker, py4j, shipped_with_the_job\n"
        "print(pyspark.__file__, py4j.__file__, *sys.path_importer_cache, sep='\\n')\n"
    )
    path = ":".join([PYSPARK, PY4J, str(tmp_path / "shipped.zip"), *sys.path])
    shown = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": path},
    )
    found_in, py4j_in, *looked_into = shown.stdout.split("\n")
    assert (found_in, py4j_in) == (pyspark.__file__, py4j.__file__)
    assert str(tmp_path / "shipped.zip") in looked_into
    assert not [entry for entry in looked_into if entry.startswith((PYSPARK, PY4J))]
