"""`recover` says what a start of the broker does, also where the broker shut down cleanly and no
run was interrupted.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kafka.starts.bases import copy_base
from winnow.cli.main import run as run_command

D = "a/d-0"
HARMS: dict[str, Callable[[Path], object]] = {
    "empty metadata log": lambda root: [
        path.write_bytes(b"")
        for path in (root / "a" / "__cluster_metadata-0").iterdir()
        if path.suffix in {".log", ".checkpoint"}
    ],
    "no partition.metadata": lambda root: (root / D / "partition.metadata").unlink(),
    "malformed epochs": lambda root: (root / D / "leader-epoch-checkpoint").write_text("0\n1\n0\n"),
    "log start above the end": lambda root: (root / "a" / "log-start-offset-checkpoint").write_text(
        "0\n1\nd 0 99999\n"
    ),
    "stray": lambda root: (root / D).rename(root / f"{D}.{'ab' * 16}-stray"),
    "directory gone": lambda root: shutil.rmtree(root / D),
    "lost+found": lambda root: (root / "a" / "lost+found").mkdir(),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One log directory of a broker that stopped cleanly, and its server.properties."""
    root = tmp_path / "r"
    copy_base("4.3.1", "alone", root)
    (tmp_path / "its.properties").write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={root}/a\n"
    )
    return root


def recover(root: Path, *options: str) -> int:
    file = str(root.parent / "its.properties")
    return run_command(["recover", str(root / "a"), "--server-properties", file, *options])


@pytest.mark.parametrize("options", [(), ("--truncate",), ("--dry-run",)], ids=str)
@pytest.mark.parametrize("harm", HARMS)
def test_harm_is_shown_beside_a_marker(
    root: Path, harm: str, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    HARMS[harm](root)
    assert recover(root, *options) == 3
    assert "Do not start the broker now" in capsys.readouterr().out
    assert recover(root, *options, "--json") == 3
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == "partial"
    assert [start["is_safe"] for start in told["starts"]] == [False]


@pytest.mark.parametrize("options", [(), ("--truncate",)], ids=str)
def test_nothing_is_said_of_a_safe_start(
    root: Path, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert recover(root, *options) == 0
    assert "broker" not in capsys.readouterr().out
    assert recover(root, *options, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["status"], told["starts"][0]["fate"]) == ("done", "loads")


def test_recover_truncate_fails_if_a_log_directory_is_not_given(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log directory of the broker was not given: no start is promised, and none is warned of."""
    (root.parent / "its.properties").write_text(
        f"process.roles=broker,controller\nnode.id=1\nlog.dirs={root}/a,{root}/b\n"
    )
    shutil.copytree(root / "a", root / "b")
    meta = root / "b" / "meta.properties"
    lines = meta.read_text().splitlines()
    meta.write_text("\n".join(line for line in lines if "directory.id" not in line))
    shutil.rmtree(root / "b" / "__cluster_metadata-0")
    assert recover(root) == 0
    capsys.readouterr()
    assert recover(root, "--truncate") == 3
    assert f"{root}/b" in capsys.readouterr().out


def test_settings_that_can_not_be_read_change_nothing(root: Path) -> None:
    left = root / D / "00000000000000000000.log.cleaned"
    left.write_bytes(b"")
    assert run_command(["recover", str(root / "a"), "--server-properties", "/nonexistent"]) == 2
    assert left.exists()
