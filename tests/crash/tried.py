"""The crash points that were handed out, by kind: what a test session can say at its end."""

from __future__ import annotations

from collections import Counter

tried: Counter[str] = Counter()
