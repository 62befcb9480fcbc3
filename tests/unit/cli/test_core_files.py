"""A command and what it starts leave no core file: it would have keys."""

from __future__ import annotations

from tests.unit.cli.in_command import output_in_command


def test_a_command_switches_core_files_off_for_what_it_starts() -> None:
    limit = "resource.setrlimit(resource.RLIMIT_CORE, (2**20, 2**30))"
    assert output_in_command("ulimit -Sc; ulimit -Hc", before=limit)[-2:] == ["0", "0"]
