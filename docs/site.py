"""What mkdocs can't say in mkdocs.yml: a decision, or a proof, is in the site because it is in its
directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def on_config(config: Any) -> None:  # noqa: ANN401 - mkdocs' own
    docs = Path(config["docs_dir"])
    for title in ("decisions", "proofs"):
        pages = sorted(str(page.relative_to(docs)) for page in (docs / title).glob("*.md"))
        config["nav"].append({title.capitalize(): pages})
