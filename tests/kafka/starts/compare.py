"""The fate of a broker beside the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.kafka.starts.fate import Fate as Seen
from tests.kafka.starts.fate import Files, Loaded
from tests.kafka.starts.verdict import Verdict
from winnow.logdir.names import LOG, SWAP, segment_file
from winnow.start.values import Fate, LogStart

SOON_GONE = "-delete"
SOON_ELSEWHERE = "-future"
"""A replica that has caught up takes the place of the other one."""


def differences(verdict: Verdict, seen: Seen, before: Files, undamaged: Seen) -> list[str]:
    """What the verdict and the broker say differently, each as `what: told, seen`.

    `before`: the files of the state. `undamaged`: what became of its base as it was.
    """
    return list(_differences(verdict, seen, before, undamaged))


def _differences(verdict: Verdict, seen: Seen, before: Files, undamaged: Seen) -> Iterator[str]:
    stops = seen.stops
    if verdict.refused:
        if not stops and not seen.offline:
            yield f"broker: refused ({verdict.reasons[0][:200]}), starts"
        return
    if (verdict.fate is Fate.STOPS) != stops:
        yield f"broker: {verdict.fate}, {'stops' if stops else 'starts'}"
        return
    if stops:
        return
    if verdict.offline != frozenset(seen.offline):
        told = ",".join(sorted(verdict.offline)) or "none"
        yield f"offline: {told}, {','.join(seen.offline) or 'none'}"
    for path in sorted({*verdict.logs, *seen.loaded}):
        if Path(path).parts[0] not in {*verdict.offline, *seen.offline}:
            yield from _of_log(path, verdict.logs.get(path), seen, before, undamaged)
            yield from _of_leader(path, verdict, seen, undamaged)
    if verdict.is_safe and (harm := _harm(seen, undamaged)):
        yield f"harm: safe, {harm}"


def claims(verdict: Verdict, seen: Seen, undamaged: Seen) -> Iterator[str]:
    """What a verdict says too much that may be that nothing is known, each as `what: told, seen`:
    that a start is safe, or that the broker does not start.
    """
    if verdict.refused:
        return
    if verdict.fate is Fate.STOPS and not seen.stops:
        yield f"broker: {verdict.fate}, starts"
    elif verdict.is_safe and seen.stops:
        yield f"broker: {verdict.fate}, stops"
    elif verdict.is_safe and (harm := _harm(seen, undamaged)):
        yield f"harm: safe, {harm}"


def _of_leader(path: str, verdict: Verdict, seen: Seen, undamaged: Seen) -> Iterator[str]:
    """At a log that is not served, a broker gives up making leaders."""
    told, loaded, base = verdict.logs.get(path), seen.loaded.get(path), undamaged.loaded.get(path)
    if told is None or loaded is None or base is None or not told.fate.is_harmless:
        return
    if path in seen.renamed:  # another replica takes its place
        return
    if any(one.fate is Fate.NOT_SERVED for one in verdict.logs.values()):
        return
    leads = any(one.leads for one in seen.loaded.values())
    if not leads and not any("publishing fault" in line for line in seen.why):
        return  # a slow machine: no leader was elected yet
    if base.leads and not loaded.leads:
        yield f"{path}: {told.fate}, no leader"


def _of_log(
    path: str, told: LogStart | None, seen: Seen, before: Files, undamaged: Seen
) -> Iterator[str]:
    loaded = seen.loaded.get(path)
    if told is None:
        if path in before:
            yield f"{path}: nothing, loaded {loaded and loaded.words()}"
        return
    aside = seen.renamed.get(path, "").endswith("-stray")
    if told.fate is Fate.UNKNOWN:
        yield f"{path}: unknown ({told.reason[:150]}), {loaded and loaded.words()}"
        return
    if (told.fate is Fate.SET_ASIDE) != aside:
        yield f"{path}: {told.fate}, {'set aside' if aside else 'kept'}"
    if loaded is None:
        yield f"{path}: {told.fate}, not loaded"
        return
    if told.log_end_offset is not None and not path.endswith(SOON_GONE):
        offsets = (told.log_start_offset, told.log_end_offset)
        if offsets != (loaded.start, loaded.end):
            yield f"{path}: offsets {offsets[0]}..{offsets[1]}, {loaded.start}..{loaded.end}"
        recovered = sum(_size(before, path, base) for base in loaded.recovered)
        if told.recovered_bytes != recovered:
            yield f"{path}: recovers {told.recovered_bytes} bytes, {recovered}"
        lost = told.cut_bytes if path.endswith(SOON_ELSEWHERE) else lost_bytes(path, seen, before)
        is_swapped = any(name.startswith(f"{path}/") and name.endswith(SWAP) for name in before)
        # A swap that loses nothing may replace logs by shorter ones.
        if told.cut_bytes != lost and not (is_swapped and told.fate.is_harmless):
            yield f"{path}: cuts {told.cut_bytes} bytes, {lost}"
    base = undamaged.loaded.get(path)
    if told.fate in {Fate.LOADS, Fate.RECOVERS} and not told.already_lost and _lost(base, loaded):
        yield f"{path}: {told.fate}, the log ends {loaded.end} and was up to {base and base.end}"


def _size(before: Files, path: str, base: int) -> int:
    """Bytes of a segment when it is recovered: a `.swap` log was renamed before."""
    log = f"{path}/{segment_file(base, LOG)}"
    return max(0, before.get(f"{log}{SWAP}", before.get(log, 0)))


def lost_bytes(path: str, seen: Seen, before: Files) -> int:
    """Bytes of logs of a partition that the start has removed."""
    logs = {name: size for name, size in before.items() if _is_log(name, path)}
    kept = dict(logs)
    for name in seen.gone:
        kept.pop(name, None)
    kept |= {name: after for name, (_, after) in seen.resized.items() if name in kept}
    kept |= {name: logs[f"{name}{SWAP}"] for name in seen.made if f"{name}{SWAP}" in logs}
    return sum(logs.values()) - sum(kept.values())


def _is_log(name: str, path: str) -> bool:
    plain = name.removesuffix(SWAP)
    return plain.startswith(f"{path}/") and plain.endswith(LOG) and len(Path(plain).name) == 24


def _lost(base: Loaded | None, loaded: Loaded) -> bool:
    """Whether a log ends below what is acknowledged, or begins above where it began."""
    return base is not None and base.watermark is not None and loaded.end < base.watermark


def _harm(seen: Seen, undamaged: Seen) -> str:
    """What a start that is called safe must not do. Empty: it does none of it."""
    if seen.offline:
        return f"offline {','.join(seen.offline)}"
    aside = [path for path, name in seen.renamed.items() if name.endswith("-stray")]
    if aside := [path for path in aside if not _is_empty_copy(path, seen)]:
        return f"set aside {','.join(aside)}"
    anew = [path for path in seen.created if _was(path, undamaged)]
    return f"made anew {','.join(anew)}" if anew else ""


def _is_empty_copy(path: str, seen: Seen) -> bool:
    """Whether it is a replica that was being moved, and has no record yet."""
    loaded = seen.loaded.get(path)
    return path.endswith(SOON_ELSEWHERE) and loaded is not None and loaded.start == loaded.end


def _was(path: str, undamaged: Seen) -> bool:
    name = Path(path).name
    return any(Path(one).name == name for one in undamaged.loaded)


def counts(found: Mapping[str, list[str]]) -> int:
    return sum(map(len, found.values()))
