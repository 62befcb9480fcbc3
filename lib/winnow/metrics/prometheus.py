"""Send gauges to Prometheus with its own client library: to a file for node_exporter's textfile
collector, or to a Pushgateway.
"""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.basic_auth import parse_url, split_off
from winnow.errors import UsageError, WinnowError
from winnow.extras import METRICS, how_to_install
from winnow.storage.output_file import READABLE, OutputFile, read_output

if TYPE_CHECKING:
    from prometheus_client import Metric

JOB = "winnow"
TIMEOUT_S = 10
_SUFFIX = ".prom"
_LONGEST_LINE = 16 << 10
"""Of a file of metrics. The parser takes quadratic time; a path has 4 KiB, and twice as much where
each character is escaped.
"""
_URLS = ("http://", "https://")


def parse_target(text: str, *, option: str = "--metrics") -> str:
    """Return where metrics go. Raises UsageError for what is neither a URL nor a file that the
    collector would read.
    """
    if not text.startswith(_URLS) and not text.endswith(_SUFFIX):
        raise UsageError(
            "the target of the metrics is invalid",
            expected=f"a file that ends in {_SUFFIX}, which node_exporter requires, or the URL of "
            "a Pushgateway",
            found=text,
        )
    return parse_url(text, option=option)


def check_target(target: str) -> None:
    """Raise UsageError as `parse_target`, and if the library is missing."""
    parse_target(target)
    if importlib.util.find_spec("prometheus_client") is None:
        raise UsageError("metrics need prometheus-client", hint=f"Run {how_to_install(METRICS)}")


@dataclass(frozen=True, slots=True)
class _Collected:
    """A registry of the client library."""

    gauges: Sequence[Metric]

    def collect(self) -> Sequence[Metric]:
        return self.gauges


def tell_prometheus(gauges: Sequence[Metric], target: str) -> None:
    """Replace a file as a whole, or push to a Pushgateway under job `winnow` and this host.

    What a run does not know stays as it was, as in a Pushgateway: the time of the last success, and
    without a result also the damage that an earlier run found. Raises UsageError as `check_target`
    does, and WinnowError if the metrics can't be written or sent.
    """
    check_target(target)
    from prometheus_client import generate_latest  # noqa: PLC0415 - an extra

    try:
        if target.startswith(_URLS):
            _push(_Collected(gauges), target)
            return
        written = generate_latest(_Collected([*gauges, *_kept(gauges, target)]))
    except OSError as error:
        raise WinnowError(
            "the metrics could not be written",
            found=str(error),
            where=target,
            hint="Give --metrics a writable file, or the URL of a Pushgateway.",
        ) from error
    # Readable, because node_exporter runs as another user.
    OutputFile(target, "--metrics", "the metrics", READABLE).write(written)


def _push(registry: _Collected, target: str) -> None:
    from urllib.request import Request  # noqa: PLC0415 - it takes long to load

    from prometheus_client import pushadd_to_gateway  # noqa: PLC0415 - an extra

    from winnow.http_client import fetch  # noqa: PLC0415 - as above

    url, auth = split_off(target)

    def send(
        url: str, method: str, timeout: float | None, headers: list[tuple[str, str]], data: bytes
    ) -> Callable[[], None]:
        request = Request(url, data, dict(headers) | auth, method=method)  # noqa: S310 - http or https

        def push() -> None:
            fetch(request, seconds=timeout or TIMEOUT_S, most=0)

        return push

    key = {"instance": socket.gethostname()}
    pushadd_to_gateway(
        url, job=JOB, registry=registry, grouping_key=key, timeout=TIMEOUT_S, handler=send
    )


def _kept(gauges: Sequence[Metric], path: str) -> Iterator[Metric]:
    """Yield the gauges in the file that these are not."""
    told = {gauge.name for gauge in gauges}
    yield from (family for family in read_metrics(path) if family.name not in told)


def read_metrics(target: str) -> list[Metric]:
    """Return what an earlier run wrote. Empty if that is unknown: a Pushgateway, no file, or a file
    that is not of metrics.
    """
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - an extra

    if target.startswith(_URLS):
        return []
    try:
        text = read_output(target).decode()
    except (FileNotFoundError, UnicodeDecodeError):
        return []
    if len(max(text.split("\n"), key=len)) > _LONGEST_LINE:
        return []
    try:
        return list(text_string_to_metric_families(text))
    except Exception:  # noqa: BLE001 - of any kind, for what nobody has written as metrics
        return []
