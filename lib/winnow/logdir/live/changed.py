"""Whether a running broker has changed a partition in place while it was read (S8.11)."""

from __future__ import annotations

import errno
import os

from winnow.logdir.live.partition import is_same, may_grow, small_content
from winnow.logdir.names import LOG
from winnow.storage.guarded import held
from winnow.storage.live.read_view import ReadView, ViewedFile, open_viewed, view_of
from winnow.storage.local import entry_of


def changed_since_view(directory: str) -> bool:
    """Return whether a partition that is read through a read view has files that were changed in
    place, or can't be read any more, since the view was opened: a follower has truncated its log.
    Reads may then have met bytes of two moments. Without a read view: False.
    """
    view = view_of(directory)
    if view is None:
        return False
    files = view.directories.get(directory, {})
    active = max((name for name in files if name.endswith(LOG)), default="").removesuffix(LOG)
    return any(
        _is_changed(view, f"{directory}/{name}", file, grows=may_grow(name, active))
        for name, file in files.items()
    )


def _is_changed(view: ReadView, path: str, file: ViewedFile, *, grows: bool) -> bool:
    """Return whether the bytes of a file that the view has are not there any more. `grows`: the
    broker may append to it.
    """
    if file.data is not None:
        return small_content(path) not in (file.data, None)
    if not file.entry.is_file:
        return False
    try:
        with held(open_viewed(view, path, file), path) as descriptor:
            now = entry_of(file.entry.name, os.fstat(descriptor))
    except OSError as error:
        return error.errno == errno.ESTALE  # readers report other errors
    if grows:
        return path.endswith(LOG) and now.size < file.bytes_in_file
    return not is_same(now, file.entry)
