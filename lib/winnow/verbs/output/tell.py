"""Report results of private copies under the names of the log directories that they were copied
from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from winnow.clean.result import PartitionResult, RunResult


def merged(
    results: Sequence[RunResult],
    *,
    run_id: str,
    named: Mapping[str, str],
    written: Sequence[str] = (),
) -> RunResult:
    """Merge the results of all batches into one.

    `named` maps the path of a private copy to the name of its source. `written` lists the
    destinations.
    """

    def renamed(text: str) -> str:
        for copy, source in named.items():
            text = text.replace(copy, source)
        return text

    def of(partition: PartitionResult) -> PartitionResult:
        return replace(
            partition,
            log_dir=named.get(partition.log_dir, partition.log_dir),
            reason=renamed(partition.reason),
            error=None if partition.error is None else renamed(partition.error),
        )

    peaks = [result.peak_extra_bytes for result in results if result.peak_extra_bytes is not None]
    return replace(
        results[0],
        run_id=run_id,
        partitions=tuple(of(partition) for result in results for partition in result.partitions),
        notes=(
            *dict.fromkeys(renamed(note) for result in results for note in result.notes),
            *(
                f"{source} was only read; the cleaned log directory is {to}"
                for source, to in zip(named.values(), written, strict=False)
            ),
        ),
        refused=any(result.refused for result in results),
        peak_extra_bytes=max(peaks, default=None),
    )
