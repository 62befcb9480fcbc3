"""The machines that people have, as rows of a matrix. Each row runs `spark-submit.sh` in an empty
environment, on a machine of its kind, and says what is expected: it works, or it prints a sentence.

    .venv/bin/python -m tests.setup.machines [--row NAME]... [--checkout DIR] [--record]

All rows run in a clean clone of the last commit, with an empty HOME. Rows that install share
nothing. The others share one clone that root has set up. `--checkout` names one that is set up
already. `--record` writes the table in docs/proofs/machines.md. Needs root, and unshare and setpriv
of util-linux.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
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


def installing(machine: str, settings: str, needs: str, says: str = "") -> Row:
    """A row that sets up a fresh clone with this Python or Java."""
    script = f"export {settings}; ./spark-submit.sh demo"
    return Row(machine, script, says=says, installs=True, needs=needs)


_CHROOT = "/var/lib/machines/sid"
"""`debootstrap --include=python3.14-venv,openjdk-21-jre-headless,git sid` makes it."""
_JVM, _PYENV = "/usr/lib/jvm", "/root/.pyenv/versions"


def in_tmp(mount: str) -> str:
    """Run `plan` and `demo` with another /tmp. The demo's log directory is not in it."""
    return f"unshare -m bash -euc '{mount}; ./spark-submit.sh demo' 2>&1 | grep -v 'note: /tmp'"


ROWS = {
    "python-3.11.2": installing(
        "Python 3.11.2 of Debian 12", "PYTHON=/usr/bin/python3.11", "/usr/bin/python3.11"
    ),
    "python-3.12": installing(
        "Python 3.12.1", f"PYTHON={_PYENV}/3.12.1/bin/python3", f"{_PYENV}/3.12.1"
    ),
    "python-3.13": installing(
        "Python 3.13.0", f"PYTHON={_PYENV}/3.13.0/bin/python3", f"{_PYENV}/3.13.0"
    ),
    "python-3.10": installing(
        "Python 3.10",
        f"PYTHON={_PYENV}/3.10.13/bin/python3",
        f"{_PYENV}/3.10.13",
        says="Winnow needs Python 3.11 to 3.14, but",
    ),
    "java-17": installing(
        "Java 17", f"JAVA_HOME={_JVM}/java-17-openjdk-amd64", f"{_JVM}/java-17-openjdk-amd64"
    ),
    "java-25": installing(
        "Java 25", f"JAVA_HOME={_JVM}/temurin-25-jdk-amd64", f"{_JVM}/temurin-25-jdk-amd64"
    ),
    "sid": Row(
        "Debian sid: Python 3.14.10 and Java 21",
        f'mount --bind "$PWD" {_CHROOT}/mnt; cp -L "${{PIP_CERT:-/dev/null}}" {_CHROOT}/cert;'
        f" PIP_CERT=/cert chroot {_CHROOT} bash -c 'cd /mnt && ./spark-submit.sh demo'",
        installs=True,
        needs=_CHROOT,
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
}


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
        ["bash", "-euo", "pipefail", "-c", row.script],
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
    parser.add_argument("--record", action="store_true")
    asked = parser.parse_args()
    names = asked.row or list(ROWS)
    lines, failed = [], 0
    with tempfile.TemporaryDirectory(prefix="machines-") as place:
        Path(place).chmod(0o755)
        shared = asked.checkout
        for name in names:
            row = ROWS[name]
            if row.needs and not Path(row.needs).exists():
                print(f"{name}: skipped, there is no {row.needs}", flush=True)
                continue
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
            lines.append(line_of(name, row, outcome))
            shutil.rmtree(scratch)
    if asked.record:
        record(lines)
    return int(failed > 0)


def line_of(name: str, row: Row, outcome: Outcome) -> str:
    expected = f"“{row.says}”" if row.says else "works"
    date = time.strftime("%Y-%m-%d", time.gmtime())
    shown = "**no**" if outcome.wrong else "yes"
    return f"| `{name}` | {row.machine} | {expected} | {shown} | {outcome.seconds:.0f} s | {date} |"


def record(lines: list[str]) -> None:
    """Replace the rows of the table that have run; keep the others."""
    text = PROOF.read_text(encoding="utf-8")
    for line in lines:
        key = line.split("|")[1]
        old = next((one for one in text.splitlines() if one.startswith(f"|{key}|")), None)
        text = text.replace(old, line) if old is not None else f"{text.rstrip()}\n{line}\n"
    PROOF.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
