"""The Dockerfile is what is tested: its own instructions, without a container engine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.setup.image import DOCKERFILE, context, stages_of
from winnow.worker.offline import CHECKOUT, START

ROOT = Path(__file__).parents[2]


def test_every_instruction_can_be_carried_out() -> None:
    built, image = stages_of(DOCKERFILE.read_text(encoding="utf-8"))
    assert built.base == image.base
    assert re.fullmatch(r"debian:trixie-slim@sha256:[0-9a-f]{64}", image.base)
    assert ("COPY", f"--from={built.name} /opt/winnow /opt/winnow") in image.steps


def test_image_runs_as_no_root_and_keeps_no_installer() -> None:
    (*_, image) = stages_of(DOCKERFILE.read_text(encoding="utf-8"))
    user, group = image.user.split(":")
    assert int(user) > 0 < int(group)
    assert image.entry == ["/opt/winnow/spark-submit.sh"]
    assert "rm -rf /var/lib/apt/lists/*" in image.steps[0][1]


def test_what_the_image_removes_are_no_licenses(tmp_path: Path) -> None:
    """The command of the Dockerfile itself, in another directory."""
    (*_, image) = stages_of(DOCKERFILE.read_text(encoding="utf-8"))
    [removal] = [step for step in image.steps[0][1].split("&&") if "/usr/share/doc" in step]
    for name in ("copyright", "changelog.Debian.gz", "README"):
        (tmp_path / "usr/share/doc/bash").mkdir(parents=True, exist_ok=True)
        (tmp_path / "usr/share/doc/bash" / name).write_text(name)
    command = removal.replace("/usr/share/doc", str(tmp_path / "usr/share/doc"))
    subprocess.run(["sh", "-c", command], check=True)
    assert os.listdir(tmp_path / "usr/share/doc/bash") == ["copyright"]


def test_actions_of_the_workflows_are_pinned_by_commit() -> None:
    workflows = [*(ROOT / ".github" / "workflows").glob("*.yml")]
    assert workflows
    for workflow in workflows:
        used = re.findall(r"uses:\s*(.*)", workflow.read_text(encoding="utf-8"))
        assert used
        for action in used:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[0-9.]+", action), action


def test_context_has_what_the_archive_packs_and_nothing_else() -> None:
    assert sorted(context()) == sorted([*CHECKOUT, START])
    assert [name for name in context() if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("text", ["FROM a\nADD b c", "FROM a\nVOLUME /x"])
def test_unknown_instruction_is_not_skipped(text: str) -> None:
    with pytest.raises(ValueError, match="unknown instruction"):
        stages_of(text)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("debootstrap") is None, reason="needs root and debootstrap"
)
def test_built_image_plans_and_cleans_as_an_unknown_user_on_a_read_only_root() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.setup.image"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    found = re.search(r"the image has ([0-9]+) MiB", ended.stdout)
    assert found is not None
    assert int(found[1]) < 1500
