"""Which options `spark-submit.sh` passes to Spark, and what executors are sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.setup.bare_machine import bare_machine, dry, start


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return bare_machine(tmp_path)


def split(machine: Path, *arguments: str) -> tuple[list[str], list[str]]:
    """Return the options that spark-submit gets beyond the script's own, and what the verb gets."""
    line = dry(machine, *arguments)
    job = line.index(f"{machine}/tree/jobs/winnow_job.py")
    own = next(at for at in range(job) if line[at].startswith("spark.executorEnv.PYTHONPATH="))
    assert line[0].endswith("/bin/spark-submit")
    return line[own + 1 : job], line[job + 1 :]


def test_spark_options_are_recognised_anywhere_in_both_forms(machine: Path) -> None:
    spark, job = split(
        machine,
        "--master",
        "local[2]",
        "clean",
        "/a b",
        "--conf=spark.x=1 2",
        "--json",
        "--driver-memory",
        "3g",
        "/c",
    )
    assert spark == ["--master", "local[2]", "--conf", "spark.x=1 2", "--driver-memory", "3g"]
    assert job == ["clean", "/a b", "--json", "/c"]


def test_options_of_the_verb_are_passed_unchanged(machine: Path) -> None:
    arguments = [
        "plan",
        "/k",
        "--topics",
        "a*",
        "--set",
        "k=v",
        "--topic-set",
        "*:k=v w",
        "--now=5",
        "--only",
        "retention",
    ]
    assert split(machine, *arguments) == ([], arguments)


def test_words_after_two_dashes_are_passed_to_the_verb(machine: Path) -> None:
    assert split(machine, "plan", "--", "--master", "x") == ([], ["plan", "--", "--master", "x"])


def test_script_gets_all_arguments_after_its_name(machine: Path) -> None:
    script = machine / "mine.py"
    script.touch()
    line = dry(machine, "--master=local[2]", str(script), "plan", "--master", "x", "--help", "--")
    assert line[0].endswith("/bin/spark-submit")
    assert line[-8:] == [
        "--master",
        "local[2]",
        str(script),
        "plan",
        "--master",
        "x",
        "--help",
        "--",
    ]


def test_script_runs_with_default_jvm_flags_unless_the_user_sets_them(machine: Path) -> None:
    script, own, flags = (
        machine / "mine.py",
        "spark.driver.defaultJavaOptions=",
        "spark.driver.defaultJavaOptions=-Xss2m",
    )
    script.touch()
    assert own in dry(machine, str(script))
    line = dry(machine, "--conf", flags, str(script))
    assert line.index(own) < line.index(flags)  # the last one counts
    assert own not in dry(machine, "--properties-file", str(machine / "mine.conf"), str(script))
    assert own not in dry(machine, "clean", "/a")


def test_script_must_exist_and_come_first(machine: Path) -> None:
    (machine / "mine.py").touch()
    assert dry(machine, "none.py")[-1] == "none.py"
    assert split(machine, "plan", str(machine / "mine.py")) == (
        [],
        ["plan", str(machine / "mine.py")],
    )
    ended = start(machine, "--json", str(machine / "mine.py"))
    assert (ended.returncode, ended.stderr) == (
        2,
        "winnow: only Spark's options may be before a script, not --json\n",
    )


def test_own_properties_file_replaces_the_defaults(machine: Path) -> None:
    line = dry(machine, "plan", "/k", "--properties-file", "mine.conf")
    assert line[line.index("--properties-file") + 1] == "mine.conf"
    assert line.count("--properties-file") == 1


SITE = "spark.executorEnv.PYTHONPATH=./winnow/site"


CLUSTER = ("--master", "spark://s:7077")


def package(machine: Path) -> str:
    return f"{machine}/tree/.cache/numba/winnow.tar.gz#winnow"


def archives(line: list[str]) -> str:
    """Return the value that Spark uses: the last one."""
    return line[len(line) - line[::-1].index("--archives")]


def test_cluster_executors_are_sent_the_package(machine: Path) -> None:
    (machine / "tree" / ".venv" / "lib" / "python3.12").mkdir(parents=True)
    line = dry(machine, "clean", "/k", *CLUSTER)
    assert archives(line) == package(machine)
    assert {SITE, "spark.pyspark.python=python3.12"} <= set(line)
    assert f"spark.pyspark.driver.python={machine}/tree/.venv/bin/python" in line
    assert "NUMBA_CACHE_DIR" not in " ".join(line)
    assert line[-2:] == ["clean", "/k"]


def test_archives_of_the_user_are_sent_too(machine: Path) -> None:
    for given in (["--archives", "a.zip#a"], ["--conf", "spark.archives=a.zip#a"]):
        assert (
            archives(dry(machine, "clean", "/k", *CLUSTER, *given)) == f"a.zip#a,{package(machine)}"
        )
    (machine / "mine.conf").write_text(
        "spark.master spark://s:7077\nspark.archives a.zip#a\n", encoding="utf-8"
    )
    line = dry(machine, "clean", "/k", "--properties-file", str(machine / "mine.conf"))
    assert archives(line) == f"a.zip#a,{package(machine)}"


@pytest.mark.parametrize(
    "given", ["hdfs:///w.tar.gz#winnow", "a.zip#a,hdfs:///w.tar.gz#winnow,b.zip#b"]
)
def test_package_given_by_the_user_is_used(machine: Path, given: str) -> None:
    line = dry(machine, "clean", "/k", *CLUSTER, "--archives", given)
    assert (line.count("--archives"), archives(line), SITE in line) == (1, given, True)


def test_executors_with_winnow_installed_are_sent_nothing(machine: Path) -> None:
    line = dry(
        machine, "clean", "/k", *CLUSTER, "--conf", "spark.executorEnv.PYTHONPATH=/opt/winnow/site"
    )
    assert not {"--archives", SITE} & set(line)
    assert not any(
        word.startswith(("spark.pyspark.python", "spark.executorEnv.NUMBA")) for word in line
    )
    assert f"spark.pyspark.driver.python={machine}/tree/.venv/bin/python" in line


def test_other_users_are_kept_from_the_ports_of_a_local_spark(machine: Path) -> None:
    setting = "spark.authenticate=true"
    assert setting in dry(machine, "plan", "/k")
    for master in ("local", "local[2]"):
        assert setting in dry(machine, "--master", master, "plan", "/k")
    for master in ("local-cluster[2,1,1024]", "yarn"):
        assert setting not in dry(machine, "--master", master, "plan", "/k")


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]", "local"])
def test_local_master_sends_nothing(machine: Path, master: str) -> None:
    line = dry(machine, "clean", "/k", "--master", master)
    assert not {"--archives", SITE} & set(line)
    assert f"spark.executorEnv.PYTHONPATH={machine}/tree/lib" in line


def test_driver_on_the_cluster_gets_no_executor_settings(machine: Path) -> None:
    line = dry(machine, "clean", "/k", *CLUSTER, "--deploy-mode", "cluster")
    assert not any(word.startswith(("spark.executorEnv", "spark.pyspark")) for word in line)


def test_conf_option_without_a_value_is_an_error(machine: Path) -> None:
    ended = start(machine, "plan", "/k", "--conf", "spark.ui.enabled")
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        2,
        "",
        "winnow: --conf takes KEY=VALUE, not spark.ui.enabled\n",
    )


def test_option_without_its_value_is_refused(machine: Path) -> None:
    ended = start(machine, "plan", "--master")
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        2,
        "",
        "winnow: --master needs a value\n",
    )


@pytest.mark.parametrize("size", ["128m", "511M", "0", "536870911", "2gb", "much"])
@pytest.mark.parametrize("option", ["--driver-memory", "--conf=spark.driver.memory", "file"])
def test_too_little_memory_for_the_driver_is_refused(machine: Path, option: str, size: str) -> None:
    (machine / "mine.conf").write_text(f"spark.driver.memory {size}\n", encoding="utf-8")
    given = ["--properties-file", str(machine / "mine.conf")]
    ended = start(machine, "plan", *(given if option == "file" else [f"{option}={size}"]))
    assert (ended.returncode, ended.stdout) == (2, "")
    (sentence,) = ended.stderr.splitlines()
    assert f"the memory of Spark's driver is {size}, but Spark needs at least 512m" in sentence


@pytest.mark.parametrize("size", ["512m", "524288K", "1g", "1T", "536870912"])
def test_enough_memory_for_the_driver_is_passed_on(machine: Path, size: str) -> None:
    line = dry(machine, "plan", "/k", "--driver-memory", size)
    assert line[line.index("--driver-memory") + 1] == size


def test_last_size_of_the_drivers_memory_counts(machine: Path) -> None:
    given = ["--driver-memory", "128m", "--conf", "spark.driver.memory=2g"]
    assert "spark.driver.memory=2g" in dry(machine, "plan", "/k", *given)
