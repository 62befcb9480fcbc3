"""Clean a copy of a real log directory, in one command."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

from winnow.cleaning.result import RunResult
from winnow.cli.call import Call
from winnow.cli.options import CommandLine
from winnow.cli.out import tell_page
from winnow.cli.outlets import tell_report
from winnow.cli.run import prepare, tell_result
from winnow.errors import WinnowError
from winnow.resources import resource
from winnow.words import size

DATA = resource("demo")
NOW = "1795300000000"
"""Some days after the broker that wrote the data was stopped, so that retention deletes something
too.
"""


def run_demo(call: Call) -> int:
    """Unpack, plan, clean. With --json, stdout carries only the result of the cleaning."""
    call.now, json = int(NOW), call.request.json
    log_dir = unpack()
    call.request = request = CommandLine(
        log_dirs=[str(log_dir)],
        topic_configs=str(DATA / "topic-configs.txt"),
        now=NOW,
        no_ledger=True,
        json=json,
    )
    plan = prepare(call, "plan", call.now)
    clean = prepare(call, "clean", call.now)
    before = bytes_on_disk(log_dir)
    with call.spark() as spark:
        if not json:
            first = f"A real broker's log directory, copied to {log_dir}"
            tell_page([first, "", "1. The plan:", ""])
            tell_result(plan(spark), request, exit_code=0)
            tell_page(["", "2. The cleaning, before and after:", ""])
        result = clean(spark)
        tell_result(result, request, exit_code=exit_code(result))
        if not json:
            saved = size(before - bytes_on_disk(log_dir))
            after = f"The cleaned directory, {saved} smaller; a broker can start on it: {log_dir}"
            tell_page(["", after])
        tell_report(result, None, json=json)
    return exit_code(result)


def exit_code(result: RunResult) -> int:
    """Return the exit code of the demo. Its data has, on purpose, partitions that are left
    unchanged, so only an error is a failure.
    """
    return 3 if any(partition.error is not None for partition in result.partitions) else 0


def unpack(beneath: str | None = None) -> Path:
    """Copy the bundled log directory into a new directory below `beneath`, and return the copy.

    None: below the system's directory for temporary files.
    """
    archive = DATA / "log-dir.tar.gz"
    if not archive.is_file():
        raise WinnowError(
            "the demo's data is missing", where=str(archive), hint="Install Winnow again."
        )
    scratch = Path(tempfile.mkdtemp(prefix="winnow-demo-", dir=beneath))
    with tarfile.open(archive) as tar:
        # Python 3.11 has filters from 3.11.4 on. The archive is ours, so it needs none before.
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        tar.extractall(scratch)  # noqa: S202
    found = sorted(path.parent for path in scratch.rglob("meta.properties"))
    if not found:
        raise WinnowError(
            "the demo's data has no log directory", where=str(archive), hint="Fetch demo/ again."
        )
    return found[0]


def bytes_on_disk(log_dir: Path) -> int:
    return sum(path.stat().st_size for path in log_dir.glob("*/*.log"))
