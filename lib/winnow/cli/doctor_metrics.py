"""The metrics of `doctor`: what `--metrics` writes or sends."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from winnow.cli.options import CommandLine
from winnow.cli.out import complain
from winnow.clock import now_ms
from winnow.errors import WinnowError
from winnow.metrics.growth import Earlier, Growth, earlier_sizes, growth_of
from winnow.metrics.prometheus import read_metrics, tell_prometheus

if TYPE_CHECKING:
    from prometheus_client import Metric

    from winnow.verbs.doctor.values import Diagnosis


class DoctorOutlet:
    """The metrics of `doctor`."""

    def __init__(self, request: CommandLine) -> None:
        self._target = request.metrics

    def ended(self, found: Diagnosis) -> tuple[Growth, ...]:
        """Send the metrics, and return the growth since the last run that wrote the same file."""
        target = self._target
        if target is None:
            return ()
        from winnow.metrics.doctor import gauges_of  # noqa: PLC0415 - an extra

        earlier: Earlier = {}
        with suppress(OSError):  # `_send` reports it
            earlier = earlier_sizes(read_metrics(target))
        growth = growth_of(found.disks, earlier, now=found.now)
        _send(target, gauges_of(found, growth, earlier, ended=now_ms()))
        return growth

    def failed(self, message: str, now: int | None, exit_code: int) -> None:
        """Report that there is no result."""
        del message, now
        if self._target is not None:
            from winnow.metrics.doctor import gauges_of_failure  # noqa: PLC0415 - an extra

            _send(self._target, gauges_of_failure(exit_code, ended=now_ms()))


def _send(target: str, gauges: Sequence[Metric]) -> None:
    """Send metrics. An error is printed and changes no exit code."""
    try:
        tell_prometheus(gauges, target)
    except WinnowError as error:
        complain(str(error))
