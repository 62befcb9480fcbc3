"""Count the crash points that were handed out, by kind, for the summary at the end of a test
session.
"""

from __future__ import annotations

from collections import Counter

tried: Counter[str] = Counter()
