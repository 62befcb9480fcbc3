"""Render a run as the text of its page. Everything from log directories (names, reasons) is
escaped.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from winnow.clean.result import RunResult
from winnow.report.facts import facts_of
from winnow.words import counted, instant, moment, printable, size


def render(result: RunResult) -> str:
    """Return one HTML document that includes its style. It has no script and fetches nothing."""
    return (
        _environment().get_template("page.html").render(facts=facts_of(result), run=result) + "\n"
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("winnow.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "counted": counted,
        "duration": _duration,
        "instant": instant,
        "minute": _minute,
        "moment": moment,
        "number": "{:,}".format,
        "percent": _percent,
        "printable": printable,
        "ratio": "{:.2f}".format,
        "share": _share,
        "size": size,
    }
    return environment


def _duration(ms: int) -> str:
    """Return `340 ms`, `4.2 s` or `3 min 20 s`."""
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 60_000} min {ms // 1000 % 60} s"


def _minute(ms: int) -> str:
    return f"{instant(ms)[:16]}Z".replace("T", " ")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "0 %"


def _share(part: int, whole: int) -> str:
    """Return the percentage, for a length in CSS or SVG."""
    return f"{100 * min(max(part / whole, 0.0), 1.0):.2f}" if whole else "0"
