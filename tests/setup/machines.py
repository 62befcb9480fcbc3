"""The machines that people have, as rows of a matrix. Each row runs `spark-submit.sh` in an empty
environment, on a machine of its kind, and says what is expected: it works, or it prints a sentence.

    .venv/bin/python -m tests.setup.machines [--row NAME]... [--checkout DIR] [--record]
        [--python FILE]...

All rows run in a clean clone of the last commit, with an empty HOME. Rows that install share
nothing. The others share one clone that root has set up. `--checkout` names one that is set up
already. `--record` writes the table in docs/proofs/machines.md. Needs root, and unshare and setpriv
of util-linux. Each row has its own mounts. Rows for a version of Python use the one of `--python`
that has it, or `python3.X` on the PATH.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROOF = ROOT / "docs" / "proofs" / "machines.md"
NOISE = re.compile(
    r"WARN|Traceback|Exception|\[error\]|\[warning\]|\tat |No such file|Permission denied"
)
"""What nobody should see when everything works."""
FROM_HERE = ("PIP_CERT", "PIP_INDEX_URL", "HTTPS_PROXY", "WINNOW_MAVEN")
"""How this machine reaches the package registries."""
QUIET = "say() { :; }\n"


@dataclass(frozen=True)
class Row:
    """One machine. `script` is bash, run in the checkout. `$scratch` is a directory that every user
    can write.
    """

    machine: str
    script: str = "./spark-submit.sh demo"
    says: str = ""
    """The sentence that is expected; if empty, the script works and prints no noise."""
    installs: bool = False
    """Starts from a clone where nothing is set up."""
    needs: str = ""
    """A file without which this row can't run."""
    python: str = ""
    """The minor version of Python that this row is about, if any."""


def installing(machine: str, settings: str, needs: str, says: str = "") -> Row:
    """A row that sets up a fresh clone with this Python or Java."""
    script = f"export {settings}; ./spark-submit.sh demo"
    return Row(machine, script, says=says, installs=True, needs=needs)


_CHROOT = "/var/lib/machines/sid"
"""`debootstrap --variant=minbase --include=python3.14-venv,openjdk-21-jre-headless,\
openjdk-25-jre-headless,git,ca-certificates sid /var/lib/machines/sid` makes it.
"""
_JVM = "/usr/lib/jvm"


def in_tmp(mount: str) -> str:
    """Run `demo` with another /tmp. The demo's log directory is not in it."""
    return f"{mount}; ./spark-submit.sh demo"


def in_sid(java: str) -> Row:
    """A row in a chroot of Debian sid, with its Python 3.14 and this version of its Java."""
    home = f"/usr/lib/jvm/java-{java}-openjdk-amd64"
    return Row(
        f"Debian sid: Python 3.14 and Java {java}",
        f'mount -t proc proc {_CHROOT}/proc; mount --bind "$PWD" {_CHROOT}/mnt;'
        f' cp -L "${{PIP_CERT:-/dev/null}}" {_CHROOT}/cert; cp /etc/resolv.conf {_CHROOT}/etc;'
        f" export PIP_CERT=/cert SSL_CERT_FILE=/cert JAVA_HOME={home};"
        f" chroot {_CHROOT} bash -c 'cd /mnt && ./spark-submit.sh demo'",
        installs=True,
        needs=_CHROOT,
    )


LOG_DIR = 'tar -xzf demo/log-dir.tar.gz -C "$scratch"; logs="$scratch/log-dir"'
"""Sets `logs` to a log directory."""
NAMELESS = "setpriv --reuid 12345 --regid 12345 --clear-groups"
HOMELESS = f'export HOME=/nowhere; {LOG_DIR}; chown -R 12345:12345 "$logs"'
CLEAN = (
    './spark-submit.sh clean "$logs" --topic-configs demo/topic-configs.txt'
    ' --ledger "$scratch/ledger" --report "$scratch/report.html"'
)
WHEEL = (
    'python3 -m venv "$scratch/venv"; pip="$scratch/venv/bin/pip";'
    ' "$pip" -q wheel -q --no-deps --wheel-dir "$scratch" .; cd "$scratch"'
)
"""Writes the wheel into `$scratch` and goes there."""
ALONE = "unshare --net sh -c 'ip link set lo up && exec \"$@\"' sh"


def forced(machine: str, system: str, says: str) -> Row:
    """A row that lets bash believe that it runs on another system."""
    return Row(machine, f"OSTYPE={system} ./spark-submit.sh demo", says=says)


def processor(name: str) -> Row:
    """A row that compiles for another processor, into a place of its own."""
    return Row(
        f"a processor as `{name}`",
        f'export NUMBA_CPU_NAME={name} NUMBA_CPU_FEATURES= NUMBA_CACHE_DIR="$scratch/kernels";'
        " ./spark-submit.sh demo",
    )


def of_python(version: str, says: str = "") -> Row:
    """A row that sets up a fresh clone with this minor version of Python, wherever it is."""
    return Row(
        f"Python {version}",
        "./spark-submit.sh demo",
        says=says,
        installs=True,
        python=version,
    )


_PYTHONS = "Winnow needs Python 3.11 to 3.14, but"
ROWS = {
    "python-3.11.2": installing(
        "Python 3.11.2 of Debian 12", "PYTHON=/usr/bin/python3.11", "/usr/bin/python3.11"
    ),
    "python-3.12": of_python("3.12"),
    "python-3.13": of_python("3.13"),
    "python-3.10": of_python("3.10", says=_PYTHONS),
    "python-3.15": Row(
        "a Python that says it is 3.15",
        'printf "#!/bin/sh\necho 3 15 venv\n" >"$scratch/python3"; chmod +x "$scratch/python3";'
        ' PYTHON="$scratch/python3" ./spark-submit.sh demo',
        says=_PYTHONS,
        installs=True,
    ),
    "java-17": installing(
        "Java 17", f"JAVA_HOME={_JVM}/java-17-openjdk-amd64", f"{_JVM}/java-17-openjdk-amd64"
    ),
    "java-25": installing(
        "Java 25 (Temurin)",
        f"JAVA_HOME={_JVM}/temurin-25-jdk-amd64",
        f"{_JVM}/temurin-25-jdk-amd64",
    ),
    "sid-java-21": in_sid("21"),
    "sid-java-25": in_sid("25"),
    "offline": Row(
        "no network at all, from the archive",
        './spark-submit.sh package --offline --output "$scratch/archive.tar.gz" >"$scratch/told";'
        f' cd "$scratch"; tar -xzf archive.tar.gz; cd winnow; {ALONE} ./spark-submit.sh demo',
    ),
    "wheel": Row(
        "the wheel in a virtual environment",
        f'{WHEEL}; "$pip" -q install winnow_kafka-*.whl; venv/bin/winnow demo',
    ),
    "pipx": Row(
        "`pipx run` of the wheel's file",
        f'{WHEEL}; "$pip" -q install pipx;'
        " venv/bin/pipx run --spec ./winnow_kafka-*.whl winnow demo",
    ),
    "uvx": Row(
        "`uvx` of the wheel's file",
        f'{WHEEL}; "$pip" -q install uv;'
        ' export SSL_CERT_FILE="${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}";'
        " venv/bin/uvx -q --from ./winnow_kafka-*.whl winnow demo",
    ),
    "image": Row(
        "the Dockerfile's steps in a chroot, then a read-only root and an unknown user",
        'python3 -m tests.setup.image >"$scratch/told" 2>&1 ||'
        ' { tail -c 1500 "$scratch/told" >&2; exit 1; }',
        needs="/usr/sbin/debootstrap",
    ),
    "other-user": Row(
        "set up by root, run by a user id without a home and a name",
        f"{HOMELESS}; {NAMELESS} {CLEAN}",
    ),
    "not-set-up": Row(
        "not set up, run by a user who can't write to the checkout",
        f"{NAMELESS} ./spark-submit.sh demo",
        says="let the owner of",
        installs=True,
    ),
    "copied": Row(
        "a copy of the checkout, with other file times",
        'cp -r . "$scratch/copy"; cd "$scratch/copy"; ./spark-submit.sh demo 2>told;'
        " ! grep compiling told",
    ),
    "moved": Row(
        "a checkout that was moved after its set-up, then started without a network",
        'cp -a . "$scratch/first"; cd "$scratch/first"; ./spark-submit.sh --version; cd ..;'
        " mv first moved; cd moved; ./spark-submit.sh demo 2>told; grep CDS told;"
        " [[ $(<told) != *compiling* ]]; export SPARK_SUBMIT_OPTS=-Xshare:on;"  # needs the archive
        f' {ALONE} ./spark-submit.sh demo 2>again; [[ $(<again) != *"setting up"* ]];'
        " cat told again >&2",
    ),
    "group-root": Row(
        "files that are kafka:root, and a run as kafka",
        f'{HOMELESS}; chgrp -R 0 "$logs"; {NAMELESS} {CLEAN}',
    ),
    "home-only": Row(
        "a user id without a name, and a HOME that it can write",
        f'{LOG_DIR}; chown -R 12345:12345 "$logs" "$HOME"; {NAMELESS} {CLEAN}',
    ),
    "no-entry": Row(
        "`sudo -u` from a directory that the other user may not enter",
        f'{HOMELESS}; root=$PWD; mkdir -m 700 "$scratch/private"; cd "$scratch/private";'
        f' {NAMELESS} "$root"/spark-submit.sh plan "$logs"'
        ' --topic-configs "$root"/demo/topic-configs.txt',
    ),
    "no-host-name": Row(
        "a host whose name can't be resolved",
        "unshare --net --uts sh -c 'ip link set lo up; hostname no.such.host; exec \"$@\"' sh"
        " ./spark-submit.sh demo",
    ),
    "language-c": Row(
        "no LANG, a path that is not ASCII",
        'mkdir "$scratch/Größe"; export TMPDIR="$scratch/Größe"; ./spark-submit.sh demo',
    ),
    "foreign-numpy": Row(
        "another numpy on PYTHONPATH",
        'mkdir "$scratch/numpy"; echo "raise ImportError(1)" >"$scratch/numpy/__init__.py";'
        ' PYTHONPATH="$scratch" ./spark-submit.sh demo',
    ),
    "spark-env": Row(
        "SPARK_CONF_DIR with a spark-env.sh of another Spark",
        'echo "SPARK_HOME=/nowhere; exit 9" >"$scratch/spark-env.sh";'
        ' SPARK_CONF_DIR="$scratch" ./spark-submit.sh demo',
    ),
    "tmp-full": Row("a full /tmp", in_tmp("mount -t tmpfs -o size=64k tmp /tmp")),
    "tmp-read-only": Row("a read-only /tmp", in_tmp("mount -t tmpfs -o ro tmp /tmp")),
    "memory": Row(
        "`--driver-memory 128m`",
        "./spark-submit.sh demo --driver-memory 128m",
        says="Spark needs at least 512m",
    ),
    "little-memory": Row("`--driver-memory 512m`", "./spark-submit.sh demo --driver-memory 512m"),
    "no-loopback": Row(
        "no loopback interface",
        "unshare --net ./spark-submit.sh demo",
        says="bring up the loopback interface (ip link set lo up)",
    ),
    "no-network": Row("no network but loopback", f"{ALONE} ./spark-submit.sh demo"),
    "cpu-nehalem": processor("nehalem"),
    "cpu-generic": processor("generic"),
    "macos": forced("macOS (forced)", "darwin23", "but this is darwin23: run it on Linux"),
    "musl": forced("Alpine (forced)", "linux-musl", "but this one has musl"),
}


def with_python(row: Row, given: Sequence[str]) -> Row | None:
    """Return the row with an interpreter of its version: one of `given`, or from the PATH. None if
    there is none.
    """
    for candidate in (*given, f"python{row.python}"):
        asked = "import sys; print(sys.executable, '.'.join(map(str, sys.version_info[:3])))"
        try:
            # A shim of a version manager may be there and have no such version.
            told = subprocess.run(
                [candidate, "-c", asked], check=False, capture_output=True, text=True
            )
        except OSError:
            continue
        executable, _, version = told.stdout.strip().rpartition(" ")
        if not told.returncode and version.startswith(f"{row.python}."):
            script = f"export PYTHON={shlex.quote(executable)}; {row.script}"
            return replace(row, machine=f"Python {version}", script=script)
    return None


@dataclass(frozen=True)
class Outcome:
    seconds: float
    wrong: str
    """Why the row is not as expected; empty if it is."""


def run(row: Row, checkout: Path, scratch: Path) -> Outcome:
    """Run a row in a checkout. `scratch` gets an empty HOME."""
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    scratch.chmod(0o777)
    environment = {
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "scratch": str(scratch),
        **{name: os.environ[name] for name in FROM_HERE if name in os.environ},
    }
    started = time.monotonic()
    ended = subprocess.run(
        ["unshare", "--mount", "bash", "-euo", "pipefail", "-c", row.script],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    seconds = time.monotonic() - started
    told = ended.stdout[-1500:] + ended.stderr[-3000:]
    if row.says:
        wrong = "" if ended.returncode and row.says in ended.stderr else told or "it works"
    elif ended.returncode:
        wrong = f"exit code {ended.returncode}: {told}"
    else:
        wrong = "".join(f"{line}\n" for line in ended.stderr.splitlines() if NOISE.search(line))
    return Outcome(seconds, wrong)


def clone(target: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(target)], check=True)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", action="append", choices=ROWS, help="default: all")
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--place", default="/var/tmp", help="directory for clones, not in /tmp")
    parser.add_argument(
        "--python", action="append", default=[], help="an interpreter for rows of its version"
    )
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    names = asked.row or list(ROWS)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="machines-", dir=asked.place) as place:
        Path(place).chmod(0o755)
        shared = asked.checkout
        for name in names:
            row = ROWS[name]
            if row.needs and not Path(row.needs).exists():
                print(f"{name}: skipped, there is no {row.needs}", flush=True)
                continue
            if row.python:
                found = with_python(row, asked.python)
                if found is None:
                    print(f"{name}: skipped, no Python {row.python} here: give --python FILE")
                    continue
                row = found
            scratch = Path(place) / name
            scratch.mkdir()
            if row.installs:
                checkout = clone(scratch / "winnow")
            elif shared is None:
                checkout = shared = clone(Path(place) / "winnow")
                (Path(place) / "setup").mkdir()
                run(Row("", "./spark-submit.sh --version"), shared, Path(place) / "setup")
            else:
                checkout = shared
            outcome = run(row, checkout, scratch)
            failed += bool(outcome.wrong)
            print(f"{name}: {outcome.wrong or 'as expected'} ({outcome.seconds:.0f} s)", flush=True)
            if asked.record:
                record(line_of(name, row, outcome))
            shutil.rmtree(scratch)
    return int(failed > 0)


def line_of(name: str, row: Row, outcome: Outcome) -> str:
    expected = f"“{row.says}”" if row.says else "works"
    date = time.strftime("%Y-%m-%d", time.gmtime())
    shown = "**no**" if outcome.wrong else "yes"
    return f"| `{name}` | {row.machine} | {expected} | {shown} | {outcome.seconds:.0f} s | {date} |"


def record(line: str) -> None:
    """Replace this row of the table; keep the others."""
    text = PROOF.read_text(encoding="utf-8")
    key = line.split("|")[1]
    old = next((one for one in text.splitlines() if one.startswith(f"|{key}|")), None)
    text = text.replace(old, line) if old is not None else f"{text.rstrip()}\n{line}\n"
    PROOF.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
