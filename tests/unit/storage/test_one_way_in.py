"""Only `winnow.storage.guarded` opens files of a log directory: no other module calls the system
with a path.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import winnow

OF_OS = {
    *(
        "open",
        "stat",
        "lstat",
        "statvfs",
        "access",
        "listdir",
        "scandir",
        "walk",
        "fwalk",
        "readlink",
        "mkdir",
    ),
    *(
        "makedirs",
        "rmdir",
        "removedirs",
        "unlink",
        "remove",
        "rename",
        "renames",
        "replace",
        "link",
        "symlink",
    ),
    *(
        "mkfifo",
        "mknod",
        "truncate",
        "chmod",
        "lchmod",
        "chown",
        "lchown",
        "utime",
        "setxattr",
        "getxattr",
    ),
}
OF_OS_PATH = {
    "exists",
    "lexists",
    "isfile",
    "isdir",
    "islink",
    "ismount",
    "getsize",
    "getmtime",
    "samefile",
}
OF_PATH = {
    *(
        "read_text",
        "write_text",
        "write_bytes",
        "is_dir",
        "is_file",
        "is_symlink",
        "iterdir",
        "glob",
        "rglob",
    ),
    *("touch", "symlink_to", "hardlink_to", "lstat", "chmod"),
}
GUARDED = {"open_file", "create_file", "open_lock", "fileno"}
"""Functions that return a descriptor."""
DESCRIPTORS = {"fd", "descriptor", "directory", "core"}
"""Names of arguments that are numbers already: `open(fd)`, `os.scandir(descriptor)`."""
ALLOWED = {
    "storage/guarded.py": "the one way",
    "storage/creating.py": "relative to a descriptor of the guarded way",
    "storage/local.py": "relative to a descriptor of the guarded way",
    "storage/input_file.py": "settings and keys, which the user names",
    "storage/output_file.py": "results and reports, which are in no log directory",
    "storage/links.py": "relative to a descriptor of the guarded way",
    "verbs/doctor/other_disk.py": "the kernel's list of mounts, and whether a disk can be written",
    "storage/mounts.py": "the kernel's own files in /proc",
    "storage/s3/answers.py": "/proc",
    "storage/private.py": "the user's own directory beside the ledger",
    "storage/way.py": "who may change a path, without opening it",
    "cleaning/summaries/store.py": "the user's own directory beside the ledger",
    "runtime/run_directory.py": "the private directory of the run",
    "runtime/cores.py": "the private directory of the run",
    "runtime/ticks.py": "the private directory of the run",
    "runtime/spool.py": "the private directory of the run",
    "verbs/output/clean.py": "work directories, removed by descriptors, and whether a destination "
    "is there",
    "worker/archives.py": "Winnow's own code and Spark's",
    "worker/standby.py": "the private directory of the run, and /dev/null",
    "worker/package.py": "Winnow's own code, and the archive that is asked for",
    "worker/offline.py": "the checkout's own files, and the archive that is asked for",
    "compiled.py": "compiled kernels, which belong to the installation",
    "resources.py": "Winnow's own files",
    "ledger/delta.py": "jars in Winnow's own cache",
    "ledger/foreign.py": "the ledger, which is in no log directory",
    "ledger/fetch_jars.py": "jars in Winnow's own cache",
    "airflow.py": "a directory of its own",
    "clock.py": "/proc",
    "logdir/live/process.py": "/proc",
    "logdir/lock.py": "/proc",
    "logdir/live/partition.py": "/proc",
    "storage/live/staging.py": "as the owner, by whole paths: no descriptor may outlive a rename",
    "storage/live/read_view.py": "what the driver holds open, by /proc",
    "batch_memory.py": "/proc and /sys",
    "runtime/freed_memory.py": "/proc",
    "cli/inputs.py": "files and directories that the user names",
    "cli/main.py": "the private directory of the run",
    "cli/profile.py": "/proc",
    "cli/signals.py": "/proc",
    "cli/line/saved.py": "files and directories that the user names",
    "report/certificate.py": "whether a file is beside one that the user names",
    "api/erasing.py": "whether the user names a file",
    "cli/session.py": "the place of sockets",
    "cli/streams.py": "standard output",
    "cli/out.py": "standard output",
    "cli/line/confirm.py": "the terminal",
    "cli/demo.py": "the demo's own files",
}


def test_no_other_module_calls_the_system_with_a_path() -> None:
    root = Path(winnow.__file__).parent
    found = {
        str(path.relative_to(root)): calls
        for path in sorted(root.rglob("*.py"))
        if (calls := [*calls_by_path(ast.parse(path.read_text(encoding="utf-8")))])
    }
    assert {name: calls for name, calls in found.items() if name not in ALLOWED} == {}
    assert ALLOWED.keys() - found.keys() == set(), "these need no leave"


def test_calls_with_a_path_are_found() -> None:
    source = (
        "open(p); os.stat(p); os.path.exists(p); shutil.rmtree(p); Path(p).read_text(); "
        "np.fromfile(p); "
        "open(fd); os.scandir(descriptor); open(open_file(p)); os.fstat(fd); storage.exists(p)"
    )
    assert [*calls_by_path(ast.parse(source))] == [
        "open", "os.stat", "os.path.exists", "shutil.rmtree", "Path(p).read_text", "np.fromfile",
    ]  # fmt: skip


def calls_by_path(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_by_path(node):
            yield ast.unparse(node.func)


def _is_by_path(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    place, _, method = name.rpartition(".")
    if name == "shutil.copyfileobj" or _is_descriptor(call):
        return False
    return (
        name == "open"
        or (place == "os" and method in OF_OS)
        or (place == "os.path" and method in OF_OS_PATH)
        or place == "shutil"
        or (
            place.startswith("Path(")
            and method in {"read_bytes", "unlink", "open", "mkdir", "stat", "rename"}
        )
        or name in {"np.memmap", "np.fromfile", "np.load", "tarfile.open"}
        or (
            place not in {"os", "os.path"}
            and method in OF_PATH
            and "follow_symlinks=False" not in ast.unparse(call)
        )
    )


def _is_descriptor(call: ast.Call) -> bool:
    if not call.args:
        return False
    first = call.args[0]
    if isinstance(first, ast.Call):
        return ast.unparse(first.func).rpartition(".")[2] in GUARDED
    return isinstance(first, ast.Name) and first.id in DESCRIPTORS
