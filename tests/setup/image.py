"""Build the image of the Dockerfile without a container engine, and run it.

    python3 -m tests.setup.image [--keep DIR]

Each instruction of the Dockerfile is carried out in a chroot. `debian:CODENAME-slim` is what
debootstrap makes, whatever the digest. A container is a chroot in namespaces of its own, with a
root that is mounted read-only, a tmpfs at /tmp, a user id without a name, and no network but
loopback. Needs root, debootstrap, and unshare of util-linux. Imports no package, so that any Python
can run it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"
IGNORED = ROOT / ".dockerignore"
FROM_HERE = ("PIP_INDEX_URL", "HTTPS_PROXY", "WINNOW_MAVEN")
"""How this machine reaches the package registries."""
CERTIFICATES = "/registries.pem"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SETTLED = {"HOME": "/root", "PATH": PATH, "DEBIAN_FRONTEND": "noninteractive"}


@dataclass
class Stage:
    """The instructions of one stage, with its settings for containers."""

    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    user: str = "0:0"
    directory: str = "/"
    entry: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)


def stages_of(text: str) -> list[Stage]:
    """Parse a Dockerfile. Raises ValueError for an instruction that `build` can't carry out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(base, name))
            continue
        stage = stages[-1]
        if word in {"RUN", "COPY"}:
            stage.steps.append((word, rest.strip()))
        elif word == "ENV":
            stage.environment |= dict(pair.split("=", 1) for pair in shlex.split(rest))
        elif word == "USER":
            stage.user = rest
        elif word == "WORKDIR":
            stage.directory = rest
        elif word == "ENTRYPOINT":
            stage.entry = json.loads(rest)
        elif word == "CMD":
            stage.arguments = json.loads(rest)
        else:
            raise ValueError(f"unknown instruction {word}")
    return stages


def context() -> list[str]:
    """Return the names at the top of the checkout that .dockerignore lets into the build."""
    lines = IGNORED.read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    if rules[0] != "*" or rules[-1] != "**/__pycache__":
        raise ValueError(f"{IGNORED} must begin with * and end with **/__pycache__")
    return [rule.removeprefix("!") for rule in rules[1:-1]]


def build(place: Path) -> tuple[Path, Stage]:
    """Build all stages in `place`. Return the root of the last one, and its settings."""
    stages = stages_of(DOCKERFILE.read_text(encoding="utf-8"))
    roots: dict[str, Path] = {}
    root = place
    for number, stage in enumerate(stages):
        root = place / f"stage-{number}"
        _copy_tree(_base(stage.base, place), root)
        _prepare(root)
        for word, rest in stage.steps:
            print(f"{word} {rest}"[:99], flush=True)
            if word == "RUN":
                _run(root, rest, stage.environment)
            else:
                _copy(rest, root, roots)
        (root / "registries.pem").unlink(missing_ok=True)
        roots[stage.name] = root
    return root, stages[-1]


def _base(name: str, place: Path) -> Path:
    found = re.fullmatch(r"debian:(\w+)-slim@sha256:[0-9a-f]{64}", name)
    if found is None:
        raise ValueError(f"unknown image {name}")
    base = place / found[1]
    if not base.exists():
        print(f"FROM {name}", flush=True)
        log = place / "debootstrap.log"
        with log.open("w") as out:
            command = ["debootstrap", "--variant=minbase", found[1], str(base)]
            subprocess.run(command, check=True, stdout=out, stderr=out)
        shutil.rmtree(base / "dev")  # device nodes are endless files for whoever copies them
        (base / "dev").mkdir()
        shutil.rmtree(base / "var/cache/apt", ignore_errors=True)
        shutil.rmtree(base / "var/lib/apt/lists", ignore_errors=True)
    return base


def _copy_tree(source: Path, target: Path) -> None:
    """Copy with owners, times and links, as the layers of an image keep them."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def _prepare(root: Path) -> None:
    for name in ("resolv.conf", "hosts"):
        shutil.copyfile(f"/etc/{name}", root / "etc" / name)
    if "PIP_CERT" in os.environ:
        shutil.copyfile(os.environ["PIP_CERT"], root / CERTIFICATES.lstrip("/"))


def _run(root: Path, command: str, environment: Mapping[str, str]) -> None:
    settings = {**SETTLED, **environment}
    settings |= {name: os.environ[name] for name in FROM_HERE if name in os.environ}
    if "PIP_CERT" in os.environ:
        settings |= dict.fromkeys(("PIP_CERT", "SSL_CERT_FILE"), CERTIFICATES)
    mounts = f"mount -t proc proc {root}/proc; mount --rbind /dev {root}/dev"
    inside = shlex.join(["chroot", str(root), "/bin/sh", "-c", command])
    subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "sh", "-euc", f"{mounts}; exec {inside}"],
        check=True,
        env=settings,
        stdout=sys.stderr,
    )


def _copy(rest: str, root: Path, roots: Mapping[str, Path]) -> None:
    *options, source, target = rest.split()
    here = root / target.lstrip("/")
    if options:
        (option,) = options
        stage = roots[option.removeprefix("--from=")]
        _copy_tree(stage / source.lstrip("/"), here)
        return
    if source != ".":
        raise ValueError(f"unknown source {source}")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in context():
        top = ROOT / name
        if top.is_dir():
            shutil.copytree(top, here / name, ignore=ignored)
        else:
            here.mkdir(parents=True, exist_ok=True)
            shutil.copy2(top, here / name)


def container(
    root: Path, stage: Stage, arguments: list[str], *, user: int | None = None, data: Path
) -> subprocess.CompletedProcess[str]:
    """Run a container, as `docker run --read-only --tmpfs /tmp --network none --user USER
    --volume DATA:/data IMAGE ARGUMENTS` does. `user` is the image's own by default.
    """
    who = stage.user if user is None else f"{user}:{user}"
    mounts = [
        "ip link set lo up",
        f"mount --rbind {root} {root}",
        f"mount -t tmpfs -o size=2g tmp {root}/tmp",
        f"mount -t proc proc {root}/proc",
        f"mount -t tmpfs -o mode=755 dev {root}/dev",
        *(f"touch {root}/dev/{n}; mount --bind /dev/{n} {root}/dev/{n}" for n in DEVICES),
        f"mkdir -m 1777 {root}/dev/shm",
        f"ln -s /proc/self/fd {root}/dev/fd",
        f"mount --bind {data} {root}/mnt",
        f"mount -o remount,ro,bind {root}",
    ]
    command = [*stage.entry, *(arguments or stage.arguments)]
    enter = ["chroot", f"--userspec={who}", "--groups=", str(root)]
    inside = shlex.join(
        [*enter, "/bin/sh", "-c", f'cd {stage.directory} && exec "$@"', "sh", *command]
    )
    return subprocess.run(
        [*APART, "sh", "-euc", f"{'; '.join(mounts)}; exec {inside}"],
        check=False,
        env={"PATH": PATH, **stage.environment},
        capture_output=True,
        text=True,
    )


APART = ("unshare", "--mount", "--pid", "--net", "--ipc", "--fork")
DEVICES = ("null", "zero", "full", "random", "urandom")


def size_of(root: Path) -> int:
    """Return the bytes of all files."""
    files = (Path(place) / name for place, _, names in os.walk(root) for name in names)
    return sum(file.lstat().st_size for file in files)


UNKNOWN = 12345
"""A user id without an entry in /etc/passwd."""


def check(root: Path, stage: Stage, place: Path) -> None:
    """Plan and clean the demo's log directory in containers. Raises AssertionError."""
    data = place / "data"
    data.mkdir()
    demo = ROOT / "demo"
    subprocess.run(["tar", "-xzf", str(demo / "log-dir.tar.gz"), "-C", str(data)], check=True)
    shutil.copy(demo / "topic-configs.txt", data)
    for path in (data, *data.rglob("*")):
        os.chown(path, UNKNOWN, UNKNOWN)
    given = ["/mnt/log-dir", "--topic-configs", "/mnt/topic-configs.txt"]
    before = listing(root)
    for legal in (
        "usr/share/doc/python3/copyright",
        "usr/lib/jvm/*/legal/*/LICENSE",
        "opt/winnow/.venv/lib/python*/site-packages/*.dist-info/licenses/LICENSE",
        "opt/winnow/.venv/lib/python*/site-packages/pyspark/licenses/LICENSE-*",
    ):
        assert [*root.glob(legal)], legal
    for name, arguments, user, code, expected in (
        ("the image's own user", [], None, 0, "Usage: "),
        ("plan", ["plan", *given], UNKNOWN, 0, "Extra space needed"),
        ("clean", ["clean", *given, "--ledger", "/mnt/ledger"], UNKNOWN, 0, "all 11"),
        ("plan again", ["plan", *given], UNKNOWN, 0, "11 partitions need no work"),
        ("history", ["history", "--ledger", "/mnt/ledger"], UNKNOWN, 0, "c-none-0"),
        ("verify", ["verify", "/mnt/log-dir"], UNKNOWN, 0, ""),
        ("another user", ["clean", *given], UNKNOWN + 1, None, ""),
    ):
        ended = container(root, stage, arguments, user=user, data=data)
        told = ended.stdout + ended.stderr
        print(f"--- {name}: exit code {ended.returncode}\n{told[-600:]}", flush=True)
        assert code is None or ended.returncode == code, told
        assert expected in ended.stdout, told
        others = [line for line in ended.stderr.splitlines() if not line.startswith("winnow: ")]
        assert others == [], told
        assert "compiling" not in ended.stderr, told
    assert listing(root) == before


def listing(root: Path) -> list[str]:
    return sorted(f"{place}/{name}" for place, _, names in os.walk(root) for name in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="build in this directory and leave it")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="image-", dir="/var/tmp") as scratch:
        place = asked.keep or Path(scratch)
        place.mkdir(exist_ok=True)
        root, stage = build(place)
        print(f"the image has {size_of(root) / 2**20:.0f} MiB", flush=True)
        check(root, stage, Path(scratch))
    return 0


if __name__ == "__main__":
    sys.exit(main())
