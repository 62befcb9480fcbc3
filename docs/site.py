"""What mkdocs can't say in mkdocs.yml: a decision, or a proof, is in the site because it is in its
directory; and files outside docs/ that pages link to are in the site, as text under `files/`.
"""

from __future__ import annotations

import re
from os.path import normpath, relpath
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

_OUT = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#]*)\)")
"""A link to a higher directory, which may be outside docs/."""


def on_config(config: Any) -> None:  # noqa: ANN401 - mkdocs' own
    docs = Path(config["docs_dir"])
    for title in ("decisions", "proofs"):
        pages = sorted(str(page.relative_to(docs)) for page in (docs / title).glob("*.md"))
        config["nav"].append({title.capitalize(): pages})


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:  # noqa: ANN401
    """Let links to files outside docs/ lead to a copy. Of links to directories, keep the text."""
    root = Path(config["docs_dir"]).parent
    here = Path(page.file.src_uri).parent

    def inside(link: re.Match[str]) -> str:
        name = normpath(Path("docs", here, link[2]))
        if name.startswith("docs/"):
            return link[0]
        if (root / name).is_dir():
            return link[1]
        if not (root / name).is_file():
            raise PluginError(f"{page.file.src_uri} links to {link[2]}, which does not exist")
        copy = f"files/{name}.txt" if name.endswith(".md") else f"files/{name}"
        if files.get_file_from_path(copy) is None:
            files.append(File.generated(config, copy, abs_src_path=str(root / name)))
        return f"[{link[1]}]({relpath(copy, here)})"

    return _OUT.sub(inside, markdown)
