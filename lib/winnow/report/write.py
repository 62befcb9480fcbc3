"""Render a run as the text of its page, and write it: never into a log directory, where a broker
would fail on it. Everything from log directories (names, reasons) is escaped.
"""

from __future__ import annotations

import os
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from winnow.cleaning.result import RunResult
from winnow.report.facts import facts_of
from winnow.storage.output_file import OutputFile, refuse_in_log_dir
from winnow.words import counted, instant, moment, printable, redacted, size


def write_report(result: RunResult, path: str | os.PathLike[str]) -> None:
    """Write the run as one HTML file, atomically. An older file of that name is replaced.

    Raises UsageError for a path inside a log directory of the run, and WinnowError if it can't be
    written.
    """
    target = OutputFile(os.fspath(path), "--report", "the report")
    refuse_in_log_dir(target.path, sorted({partition.log_dir for partition in result.partitions}))
    target.write(redacted(render(result)).encode())


def render(result: RunResult) -> str:
    """Return one HTML document that includes its style. It has no script and fetches nothing."""
    return page("page.html", facts=facts_of(result), run=result)


def page(template: str, **values: object) -> str:
    """Return the text of a page, made from a template of this folder."""
    return _environment().get_template(template).render(**values) + "\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("winnow.report"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "counted": counted,
        "duration": _duration,
        "instant": instant,
        "minute": lambda ms: f"{instant(ms)[:16]}Z".replace("T", " "),
        "moment": moment,
        "number": "{:,}".format,
        "percent": lambda part, whole: f"{100 * part / whole:.0f} %" if whole else "0 %",
        "ratio": "{:.2f}".format,
        # a percentage, for a length in CSS or SVG
        "share": lambda part, whole: (
            f"{100 * min(max(part / whole, 0.0), 1.0):.2f}" if whole else "0"
        ),
        "size": size,
    }
    return environment


def _shown(value: object) -> object:
    """Make any text of a page printable. Markup was made by a template, of texts that are."""
    return value if isinstance(value, Markup) else printable(f"{value}")


def _duration(ms: int) -> str:
    """Return `340 ms`, `4.2 s` or `3 min 20 s`."""
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 60_000} min {ms // 1000 % 60} s"
