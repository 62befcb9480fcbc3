"""A run in one line, for a mail or a chat."""

from __future__ import annotations

from collections import Counter

from winnow.cleaning.result import RunResult
from winnow.cli.text.json_output import totals
from winnow.words import counted, size


def summary(result: RunResult) -> str:
    """Return for example `clean: 12 of 34 partitions, 1.2 GiB freed of 3.0 GiB; 2 left alone
    (tiered 2)`.
    """
    found = totals(result)
    freed = found["bytes_freed"]
    would = " would be" if result.verb == "plan" else ""
    gain = "unknown how much is" if freed is None else f"{size(freed)}{would}"
    many = counted(len(result.partitions), "partition")
    before = size(found["bytes_before"])
    parts = [f"{result.verb}: {found['with_work']:,} of {many}, {gain} freed of {before}"]
    codes = Counter(code for p in result.partitions if (code := p.code) is not None)
    if codes:
        why = ", ".join(f"{code} {count:,}" for code, count in codes.most_common())
        parts.append(f"{codes.total():,} left alone ({why})")
    return "; ".join(parts)
