"""The wheel is whole: installed into an environment that nobody activates, it has the demo, starts
workers of its own Python, and writes and reads a ledger in anybody's Spark session.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from winnow.compiled import place

ROOT = Path(__file__).parents[2]
LISTED = (ROOT / "conf" / "jars.txt").read_text(encoding="utf-8")
COMPILED_FIRST = "winnow.wire.kernels.walk."
BUILT_FROM = (
    "lib",
    "conf",
    "demo",
    "setup.py",
    "setup.cfg",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)
NOTEBOOK = """
from pathlib import Path
from pyspark.sql import SparkSession
import winnow
from winnow.cli.demo import DATA, NOW, unpack

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
log_dir = str(unpack("."))
given = {"topic_configs": str(DATA / "topic-configs.txt"), "now": int(NOW)}
print("planned", len(winnow.plan(spark, log_dir, topics="c-none", **given).run.partitions))
winnow.clean(spark, log_dir, topics="c-none", ledger="ledger", **given)
print("recorded", winnow.ledger_table(spark, "ledger").count())
winnow.register(spark)
log = spark.read.format("kafka-log").option("topics", "c-tomb").load(log_dir)
print("read", log.count() > 0)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, beside the packages of this one. It has all compiled
    kernels but those of one file, so that the first run compiles few.
    """
    home = tmp_path_factory.mktemp("wheel")
    tree = home / "tree"
    tree.mkdir()
    for name in BUILT_FROM:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy2)(ROOT / name, tree / name)
    before = files_below(tree)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wheel = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(home), str(tree)]
    run([*pip, *wheel], home)
    assert files_below(tree) == before
    run([sys.executable, "-m", "venv", "--without-pip", str(home / "venv")], home)
    (site,) = (home / "venv").glob("lib/python3*/site-packages")
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    (built,) = home.glob("*.whl")
    run([*pip, "--python", str(home / "venv/bin/python"), "install", "--no-deps", str(built)], home)
    for name in ("LICENSE", "obstore.txt"):
        assert (site / "winnow" / "licenses" / name).stat().st_size > 1000
    kernels = site / "winnow" / "__pycache__"
    kernels.mkdir(exist_ok=True)
    for kernel in place().glob("*.nbc"):
        if COMPILED_FIRST not in kernel.name:
            shutil.copy2(kernel, kernels)
    assert list(kernels.glob("*.nbc"))
    assert not list(kernels.glob(f"*{COMPILED_FIRST}*"))
    return home


def files_below(tree: Path) -> set[str]:
    found = (path.relative_to(tree) for path in tree.rglob("*") if "__pycache__" not in path.parts)
    return {str(path) for path in found}


def run(command: list[str], home: Path, **environment: str) -> str:
    """Return what it writes to stdout. It may write nothing but Winnow's own lines to stderr."""
    told, complained = run_loud(command, home, **environment)
    assert [line for line in complained.splitlines() if not line.startswith("winnow: ")] == []
    return told


def run_loud(command: list[str], home: Path, **environment: str) -> tuple[str, str]:
    java = shutil.which("java")
    assert java is not None
    ended = subprocess.run(
        command,
        cwd=home,
        env={"PATH": f"/usr/bin:/bin:{Path(java).parent}", "HOME": str(home), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    return ended.stdout, ended.stderr


def test_name_is_ours_and_the_command_is_winnow(home: Path) -> None:
    assert [path.name.partition("-")[0] for path in home.glob("*.whl")] == ["winnow_kafka"]
    assert "Usage: winnow " in run([str(home / "venv/bin/winnow"), "--help"], home)


def test_set_up_leaves_nothing_to_set_up(home: Path) -> None:
    jars = home / ".cache" / "winnow" / "jars"
    shutil.copytree(ROOT / ".cache" / "jars", jars)
    gone = min(jars.glob("*.jar"))
    gone.rename(home / gone.name)
    [path] = [line.split()[1] for line in LISTED.splitlines() if line.endswith(f"/{gone.name}")]
    (home / "maven" / path).parent.mkdir(parents=True)
    (home / gone.name).rename(home / "maven" / path)
    mirror = {"WINNOW_MAVEN": (home / "maven").as_uri()}
    (cache,) = home.glob("venv/lib/python3*/site-packages/winnow/__pycache__")
    for compiled in (*cache.glob("complete-*"), *cache.glob(f"*{COMPILED_FIRST}*.nbc")):
        compiled.unlink()  # another test may have run a command first
    refused = subprocess.run(
        [str(home / "venv/bin/winnow"), "demo"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "WINNOW_SET_UP": "no"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert "missing are compiled kernels and Delta's jars. Run `winnow set-up`" in refused.stderr
    said, complained = run_loud([str(home / "venv/bin/winnow"), "set-up"], home, **mirror)
    assert said.startswith("Everything is set up (")
    assert "compiling the kernels" in complained
    assert gone.exists()
    kernels = home.glob("venv/lib/python3*/site-packages/winnow/__pycache__/*.nbc")
    assert [kernel.name for kernel in kernels if COMPILED_FIRST in kernel.name]
    said, complained = run_loud([str(home / "venv/bin/winnow"), "set-up", "--json"], home)
    assert json.loads(said)["status"] == "done"
    assert "compiling" not in complained
    look = "from winnow.worker.not_set_up import check_set_up; check_set_up()"
    run([str(home / "venv/bin/python"), "-c", look], home, WINNOW_SET_UP="no")


def test_demo_runs_without_language_and_with_a_foreign_spark_env(home: Path) -> None:
    place = home / "Größe"
    place.mkdir()
    (home / "spark-env.sh").write_text("echo loaded; exit 9\n")
    given = {"LC_ALL": "C", "TMPDIR": str(place), "SPARK_CONF_DIR": str(home)}
    told = run([str(home / "venv/bin/winnow"), "demo"], home, **given)
    assert "The cleaned directory" in told


def test_command_without_java_says_what_to_install(home: Path) -> None:
    log_dir = home / "empty"
    log_dir.mkdir()
    (log_dir / "meta.properties").write_text("version=1\n")
    ended = subprocess.run(
        [str(home / "venv/bin/winnow"), "plan", str(log_dir)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "JAVA_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    (sentence,) = ended.stderr.splitlines()
    assert "winnow: Winnow needs Java 17 or newer, but JAVA_HOME is /nowhere" in sentence


@pytest.mark.slow
def test_any_spark_session_plans_cleans_records_and_reads(home: Path) -> None:
    (home / "notebook.py").write_text(NOTEBOOK)
    # Spark's own session prints Spark's warnings.
    told, _ = run_loud([str(home / "venv/bin/python"), "notebook.py"], home)
    assert told.splitlines() == ["planned 1", "recorded 1", "read True"]
    history = run([str(home / "venv/bin/winnow"), "history", "--ledger", "ledger"], home)
    assert "c-none-0" in history
