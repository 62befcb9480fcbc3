"""The manifests of examples/kubernetes fit the schema of Kubernetes, and their commands exist."""

from __future__ import annotations

import copy
import json
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.pages import ROOT
from winnow.cli.main import run

MANIFESTS = {"kafka.yaml": "apps.v1.StatefulSet", "prepare.yaml": "batch.v1.CronJob"}
SCHEMA = json.loads(Path(__file__).with_name("kubernetes.json").read_text(encoding="utf-8"))


def manifest(name: str) -> dict[str, Any]:
    text = (ROOT / "examples" / "kubernetes" / name).read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def pod(name: str) -> dict[str, Any]:
    spec = manifest(name)["spec"]
    template = (
        spec["jobTemplate"]["spec"]["template"] if "jobTemplate" in spec else spec["template"]
    )
    found: dict[str, Any] = template["spec"]
    return found


def winnow(name: str) -> list[dict[str, Any]]:
    """The containers with Winnow's image."""
    spec = pod(name)
    every = [*spec.get("initContainers", []), *spec["containers"]]
    return [container for container in every if container["image"] == "winnow"]


def check(value: object, kind: str) -> None:
    schema = {"$ref": f"#/definitions/io.k8s.api.{kind}", "definitions": SCHEMA["definitions"]}
    jsonschema.Draft7Validator(schema).validate(value)


@pytest.mark.parametrize(("name", "kind"), MANIFESTS.items())
def test_manifest_fits_the_schema(name: str, kind: str) -> None:
    value = manifest(name)
    check(value, kind)
    assert value["apiVersion"] == kind.rpartition(".")[0].replace(".", "/")
    wrong = copy.deepcopy(value)
    wrong["spec"]["nonsense"] = 1
    with pytest.raises(jsonschema.ValidationError, match="nonsense"):
        check(wrong, kind)
    text = json.dumps(value).replace("readOnlyRootFilesystem", "readOnlyRoot")
    with pytest.raises(jsonschema.ValidationError):
        check(json.loads(text), kind)


@pytest.mark.parametrize("name", MANIFESTS)
def test_containers_are_confined_and_share_user_and_paths(name: str) -> None:
    user = pod("kafka.yaml")["securityContext"]
    assert pod(name)["securityContext"] == user
    assert user["runAsUser"] > 0
    assert user["fsGroupChangePolicy"] == "OnRootMismatch"
    broker = next(one for one in pod("kafka.yaml")["containers"] if one["name"] == "kafka")
    for container in winnow(name):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        paths = {mount["name"]: mount["mountPath"] for mount in broker["volumeMounts"]}
        assert mounts == paths | {"tmp": "/tmp"}  # noqa: S108 - of the image


def test_pod_commits_before_the_broker_starts_and_prepares_beside_it() -> None:
    commit, sidecar = winnow("kafka.yaml")
    assert commit["command"] == ["/opt/winnow/lib/commit-before-start.sh"]
    assert "restartPolicy" not in commit
    assert sidecar["restartPolicy"] == "Always"
    script = ROOT / commit["command"][0].removeprefix("/opt/winnow/")
    assert script.stat().st_mode & 0o111 == 0o111


def prepares() -> list[str]:
    """The command lines of `prepare`."""
    shells = [winnow("kafka.yaml")[1]["args"][0], winnow("prepare.yaml")[0]["args"][0]]
    found = [
        re.search(r"/opt/winnow/spark-submit.sh (.*?)(?: &| \|\|)", one.replace("\\\n", ""))
        for one in shells
    ]
    return [line[1] for line in found if line is not None]


def test_both_prepare_with_the_same_options_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    (one, other) = [*map(shlex.split, prepares())]
    assert one == other
    assert one[:3] == ["--driver-memory", "2g", "prepare"]
    assert run(["prepare", "/nowhere/kafka", *one[4:]]) == 2
    assert "/nowhere/kafka" in capsys.readouterr().err


def test_sidecar_ends_at_once_when_its_pod_ends() -> None:
    [script] = winnow("kafka.yaml")[1]["args"]
    with subprocess.Popen(["/bin/bash", "-c", script]) as shell:
        time.sleep(0.5)  # until the trap is set
        shell.send_signal(signal.SIGTERM)
        assert shell.wait(timeout=10) == 0


def test_sidecar_ends_the_preparation_when_its_pod_ends(tmp_path: Path) -> None:
    """`prepare` is a program that notes its SIGTERM; the shell of the manifest is real."""
    [script] = winnow("kafka.yaml")[1]["args"]
    program = tmp_path / "spark-submit.sh"
    program.write_text(
        f"#!/bin/bash\ntrap 'echo ended >{tmp_path}/ended; exit 3' TERM\ntouch {tmp_path}/began\n"
        "while :; do sleep 0.1; done\n"
    )
    program.chmod(0o755)
    script = script.replace("/opt/winnow", str(tmp_path)).replace("sleep 600", "sleep 0")
    with subprocess.Popen(["/bin/bash", "-c", script]) as shell:
        while not (tmp_path / "began").exists():
            time.sleep(0.02)
        shell.send_signal(signal.SIGTERM)
        assert shell.wait(timeout=10) == 0
    assert (tmp_path / "ended").exists()
