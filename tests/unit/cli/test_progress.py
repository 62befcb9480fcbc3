import io

from winnow.cli.progress import Progress


def test_a_line_names_stage_share_and_seconds() -> None:
    seconds = iter([100.0, 100.0, 112.4, 130.0, 131.0])
    progress = Progress(io.StringIO(), clock=lambda: next(seconds))
    assert progress.line() == "starting (0 s)"
    progress.stage("looking at 12 partitions")
    assert progress.line() == "looking at 12 partitions (12 s)"
    progress.stage("rewriting", total_bytes=4 << 30)
    progress.advance(1 << 30)
    assert progress.line() == "rewriting: 25 % of 4.0 GiB (30 s)"
    progress.stage("committing", total_tasks=8)
    assert progress.line() == "committing: 0 % of 8 tasks (31 s)"


def test_off_a_terminal_a_short_run_writes_nothing_and_ends_at_once() -> None:
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress.stage("looking")
    assert stream.getvalue() == ""
