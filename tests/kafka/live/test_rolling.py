"""examples/rolling cleans a real cluster of three brokers, one after the other, under load."""

from __future__ import annotations

import json
import os
import re
import shlex
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kafka.judge.cluster import Cluster
from tests.kafka.live.clients import create_topics, working
from tests.pages import ROOT

ROLLING = ROOT / "examples" / "rolling" / "rolling.py"
WINNOW = f"{sys.executable} {ROOT / 'jobs' / 'winnow_job.py'}"
SETTINGS = {
    "log.cleaner.enable": "false",
    "log.initial.task.delay.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
}
_ASK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as link:
    link.connect(sys.argv[1])
    link.sendall(" ".join(sys.argv[2:]).encode() + b"\\n")
    sys.exit(int(link.makefile().readline()))
"""


@contextmanager
def supervised(cluster: Cluster, place: Path) -> Iterator[str]:
    """A supervisor that starts and stops the brokers of the cluster. Yields its command."""

    class Supervisor(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            what, number = self.rfile.readline().split()
            node = cluster.nodes[int(number) - 1]
            if what == b"stop":
                node.stop()
            elif node.pid is None:
                node.start()
            self.wfile.write(b"0\n")

    path, ask = place / "supervisor", place / "ask.py"
    ask.write_text(_ASK)
    with socketserver.ThreadingUnixStreamServer(str(path), Supervisor) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"{sys.executable} {ask} {path}"
        server.shutdown()


def write_plan(place: Path, cluster: Cluster, supervisor: str) -> Path:
    """Broker 2 can't commit the first time."""
    log_dir = shlex.quote(f"{place}/cluster/node-") + "{id}"
    flag = place / "failed"
    commands = {
        "prepare": f"{WINNOW} prepare {log_dir} --replace-cleaner --keep-free 0 --quiet --summary"
        f" --server-properties {place}/cluster/home-{{id}}/server.properties",
        "stop": f"{supervisor} stop {{id}}",
        "commit": f"if [ {{id}} = 2 ] && ! [ -e {flag} ]; then touch {flag}; exit 1; fi;"
        f" {WINNOW} commit {log_dir} --quiet --summary",
        "start": f"{supervisor} start {{id}}",
    }
    file = place / "rolling.toml"
    brokers = ", ".join(f'{{ id = {n}, name = "broker-{n}" }}' for n in (3, 2, 1))
    file.write_text(
        f'bootstrap = "{cluster.bootstrap}"\nbrokers = [{brokers}]\n'
        f'state = "{place}/state.json"\nlimit = 300\nprepare_limit = 600\nprepare_at_once = 2\n'
        "[commands]\n"
        + "".join(f"{step} = {json.dumps(line)}\n" for step, line in commands.items())
    )
    return file


def rolling(plan: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "lib"), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        [sys.executable, ROLLING, plan, *options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


@pytest.mark.slow
def test_cluster_is_cleaned_under_load(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", settings=SETTINGS) as cluster:
        create_topics(cluster.bootstrap)
        with (
            supervised(cluster, tmp_path) as supervisor,
            working(cluster.bootstrap) as clients,
        ):
            plan = write_plan(tmp_path, cluster, supervisor)
            while clients.transactions < 200 and not clients.failed:
                time.sleep(0.1)
            shown = rolling(plan, "--dry-run")
            assert shown.returncode == 0, shown.stdout + shown.stderr
            assert shown.stdout.count("all partitions are in sync") == 3
            pids = [node.pid for node in cluster.nodes]
            first = rolling(plan)
            assert first.returncode == 1, first.stdout + first.stderr
            assert "broker-2: commit ended with exit code 1" in first.stdout
            assert json.loads((tmp_path / "state.json").read_text()) == {
                "3": "done",
                "2": "started",
            }
            assert cluster.nodes[1].pid not in {None, pids[1]}, "it was started again"
            second = rolling(plan)
            assert second.returncode == 0, second.stdout + second.stderr
            assert "all 3 brokers are cleaned" in second.stdout
            assert "broker-3: stop" not in second.stdout
            assert not (tmp_path / "state.json").exists()
        ran = f"{first.stdout}{second.stdout}{clients.transactions} transactions\n"
        sys.stderr.write(ran)
        clients.check()
        commits = re.findall(r"commit: (\d+) of (\d+) partitions, (.*) freed", ran)
        assert len(commits) == len(cluster.nodes), ran
        assert all(done == all_ and int(done) >= 4 for done, all_, _ in commits), ran
    compared = subprocess.run(
        [*WINNOW.split(), "verify", "--compare", *(str(node.log_dir) for node in cluster.nodes)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "lib"), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert compared.returncode == 0, compared.stdout[-3000:] + compared.stderr[-2000:]
