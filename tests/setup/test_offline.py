"""`package --offline` sets up a host that has no network: nothing but loopback."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALONE = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The unpacked archive."""
    if subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no network namespace can be made here")
    archive = tmp_path / "winnow.tar.gz"
    # The script sets up what has changed since, so that the mark of the kernels is that of these
    # sources. Otherwise the host compiles them again.
    pack = [str(ROOT / "spark-submit.sh"), "package", "--offline", "--output", str(archive)]
    subprocess.run(pack, check=True, capture_output=True)
    assert archive.stat().st_size < 500 * 2**20
    subprocess.run(["tar", "-xzf", str(archive)], cwd=tmp_path, check=True)
    archive.unlink()
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_unpacked_archive_cleans_and_keeps_a_ledger_without_network(host: Path) -> None:
    site = host / "winnow/.cache/offline/site"
    assert len([*site.glob("*.dist-info/licenses/**/LICENSE*")]) > 20
    assert len([*(site / "pyspark/licenses").iterdir()]) > 50
    log_dir = host / "logs"
    subprocess.run(["tar", "-xzf", str(host / "winnow/demo/log-dir.tar.gz")], cwd=host, check=True)
    (host / "log-dir").rename(log_dir)
    given = ["--topic-configs", str(host / "winnow/demo/topic-configs.txt")]
    told = start(host, "clean", str(log_dir), *given, "--ledger", str(host / "ledger"))
    assert "could not" not in told
    kernels = [*(host / "winnow/.cache/numba").glob("*.nbc")]
    assert kernels
    assert not [file for file in kernels if file.stat().st_mtime], "compiled here"
    assert "c-none-0" in start(host, "history", "--ledger", str(host / "ledger"))
    assert not (host / "winnow/.cache/offline/site").exists()


def start(host: Path, *arguments: str) -> str:
    python, java = Path(sys.executable).resolve().parent, shutil.which("java")
    assert java is not None
    ended = subprocess.run(
        [*ALONE, str(host / "winnow/spark-submit.sh"), *arguments],
        cwd=host,
        env={
            "PATH": f"{python}:/usr/sbin:/usr/bin:/bin:{Path(java).parent}",
            "HOME": str(host / "home"),
            "LANG": "C.UTF-8",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in {0, 3}, ended.stdout[-2000:] + ended.stderr[-4000:]
    return ended.stdout
