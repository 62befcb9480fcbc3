"""What the console loads before it knows the command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import winnow
from tests.fixtures.data import unpacked

_LOADED = """
import sys
import winnow.cli.main
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.parametrize(
    "heavy", ["numba", "pyarrow", "pyspark", "pandas", "jinja2", "numpy", "http"]
)
def test_heavy_modules_are_not_loaded_at_start(heavy: str, loaded: set[str]) -> None:
    assert "winnow" in loaded
    assert heavy not in loaded


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """Return the top-level modules of a fresh interpreter that has loaded the console's
    commands.
    """
    shown = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True
    )
    return set(shown.stdout.split())


def test_plan_and_clean_do_not_load_pyarrow() -> None:
    script = "import sys, winnow.api.run; print('numba' in sys.modules, 'pyarrow' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["True", "False"]


OF_A_STOPPED_BROKER = (
    *("cleaning.commit.*", "cleaning.rewrite.cleaned", "cleaning.request", "cleaning.result"),
    *("cleaning.plan.outcomes", "cleaning.plan.partitions", "cleaning.plan.ready"),
    *("cleaning.plan.settings", "cleaning.staged"),
    *("logdir.*", "logdir.commit.*", "logdir.indexes.*", "logdir.live.*"),
    *("policy.*", "runtime.*", "start.*", "survey.*"),
)
"""Modules that check, commit and recover. None of them waits for Spark or for kernels."""
KERNELS = ("winnow.logdir.indexes.kernels",)
_IMPORTED = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(sorted(sys.modules)))
"""


def modules(*patterns: str) -> list[str]:
    """Return the names of the modules of these files below `winnow`."""
    lib = Path(winnow.__path__[0])
    found = {
        ".".join(("winnow", *file.relative_to(lib).with_suffix("").parts))
        for pattern in patterns
        for file in lib.glob(f"{pattern.replace('.', '/')}.py")
        if file.stem != "__init__"
    }
    return sorted(found - set(KERNELS))


def test_modules_for_a_stopped_broker_load_neither_kernels_nor_spark() -> None:
    names = modules(*OF_A_STOPPED_BROKER)
    assert len(names) > 120
    shown = subprocess.run(
        [sys.executable, "-c", _IMPORTED, *names], capture_output=True, text=True, check=True
    )
    loaded = json.loads(shown.stdout)
    assert set(names) <= set(loaded)
    heavy = {"numba", "llvmlite", "pyspark", "pyarrow", "pandas", "py4j"}
    assert heavy.isdisjoint(name.partition(".")[0] for name in loaded)
    assert len(loaded) < 620


_METADATA = """
import sys
from winnow.cleaning.plan.settings import with_metadata
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.config import TopicConfig
from winnow.policy.sources import Settings
from winnow.storage.places import Places

dirs = survey_log_dirs(Places(), sys.argv[1:])
settings, notes = with_metadata(Settings(), Places(), dirs)
names = {one.topic for one in dirs[0].partitions}
found = [settings.resolve(name, node_id=dirs[0].meta.node_id) for name in names]
print(sum(isinstance(one, TopicConfig) for one in found), len(notes), "numba" in sys.modules)
"""


def test_recorded_metadata_log_is_read_without_numba() -> None:
    recorded = unpacked("before-clean") / "clean"
    topics = {path.name.rpartition("-")[0] for path in recorded.glob("*-?")}
    topics.remove("__cluster_metadata")
    shown = subprocess.run(
        [sys.executable, "-c", _METADATA, str(recorded)], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == [str(len(topics)), "0", "False"]
