"""A command and what it starts leave no core file: it would have keys."""

from __future__ import annotations

from tests.unit.cli.at_exit import said_at_exit


def test_a_command_switches_core_files_off_for_what_it_starts() -> None:
    limit = "resource.setrlimit(resource.RLIMIT_CORE, (2**20, 2**30))"
    assert said_at_exit("ulimit -Sc; ulimit -Hc", before=limit)[-2:] == ["0", "0"]
