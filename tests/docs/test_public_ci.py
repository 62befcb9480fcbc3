"""Public CI tests the ends of what is supported, and newcomers find templates and ten lines."""

from __future__ import annotations

import configparser
import re
from typing import Any

import pytest
import yaml

from tests.pages import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
TEN = 10


def _jobs(name: str) -> dict[str, Any]:
    loaded = yaml.safe_load((GITHUB / "workflows" / name).read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def test_each_push_tests_the_oldest_and_the_newest_python_and_java() -> None:
    workflow = _jobs("ci.yml")
    events = workflow[True]  # YAML reads the key `on` as a boolean
    assert events == {"push": None, "pull_request": None}
    (job,) = workflow["jobs"].values()
    tested = [(row["python"], row["java"]) for row in job["strategy"]["matrix"]["include"]]
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg", encoding="utf-8")
    least, past = map(int, re.findall(r"3\.(\d+)", metadata["options"]["python_requires"]))
    supported = re.search(
        r"^\| Java \| ([\d, ]+) \|", (ROOT / "docs" / "deploy.md").read_text(), re.MULTILINE
    )
    assert supported is not None
    javas = supported[1].split(", ")
    assert tested == [(f"3.{least}", javas[0]), (f"3.{past - 1}", javas[-1])]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_tests_run_with_the_python_that_was_asked_for(workflow: Any) -> None:
    """spark-submit.sh takes the newest Python on the PATH, and a runner has several."""
    (job,) = _jobs(workflow.name)["jobs"].values()
    steps = [step["run"] for step in job["steps"] if "run" in step]
    chosen = [step for step in job["steps"] if "PYTHON" in step.get("env", {})]
    asked = [step for step in job["steps"] if "setup-python" in step.get("uses", "")]
    assert [step["run"] for step in chosen] == ["./spark-submit.sh --version"] == steps[:1]
    assert chosen[0]["env"]["PYTHON"] == f"python{asked[0]['with']['python-version']}"


@pytest.mark.parametrize("name", ["wrong-result.md", "idea.md"])
def test_template_of_an_issue_has_a_name(name: str) -> None:
    text = (GITHUB / "ISSUE_TEMPLATE" / name).read_text(encoding="utf-8")
    head = yaml.safe_load(text.split("---")[1])
    assert head["name"]
    assert head["about"]


def test_pull_requests_have_a_template() -> None:
    text = (GITHUB / "PULL_REQUEST_TEMPLATE.md").read_text(encoding="utf-8")
    assert "bash .ci/run" in text


def test_contributing_begins_with_ten_lines() -> None:
    first = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n## ")[0]
    numbers = re.findall(r"^(\d+)\. ", first, re.MULTILINE)
    assert numbers == [str(number) for number in range(1, TEN + 1)]
