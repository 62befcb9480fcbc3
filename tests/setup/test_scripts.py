"""spark-submit.sh before anything is set up: what it reports when something is missing, and which
options go to Spark and which to the verb.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "dirname", "readlink", "find", "mkdir", "rm", "touch", "mv", "cp", "cat")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The scripts in a tree of their own, and a `bin` with the usual commands but no Python or
    Java.
    """
    for name in (
        "spark-submit.sh",
        "lib/set-up.sh",
        "lib/winnow/runtime/java.sh",
        "requirements.txt",
        "conf/spark-defaults.conf",
    ):
        target = tmp_path / "tree" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (tools / tool).symlink_to(found)
    return tmp_path


def command(machine: Path, name: str, script: str) -> None:
    path = machine / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def java(machine: Path, version: str) -> None:
    command(machine, "java", f"echo 'openjdk version \"{version}\" 2026-01-01' >&2")


def python(machine: Path, answer: str, name: str = "python3") -> None:
    command(machine, name, f"echo {answer}")


def start(machine: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [machine / "tree" / "spark-submit.sh", *arguments],
        env={"PATH": str(machine / "bin"), "HOME": str(machine), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def refused(machine: Path, **environment: str) -> str:
    """Run `demo`, which must fail, and return the one sentence that it prints."""
    ended = start(machine, "demo", **environment)
    assert (ended.returncode, ended.stdout) == (1, "")
    (sentence,) = ended.stderr.splitlines()
    assert not (machine / "tree" / ".venv").exists()
    return sentence


def test_missing_java_is_reported(machine: Path) -> None:
    python(machine, "3 13 venv")
    assert "needs Java 17 or newer, but there is no java on the PATH: install it" in refused(
        machine
    )


@pytest.mark.parametrize("version", ["11.0.22", "1.8.0_292", "16"])
def test_old_java_is_reported_with_its_version(machine: Path, version: str) -> None:
    java(machine, version)
    sentence = refused(machine)
    assert f"{machine}/bin/java is Java {version}: install it" in sentence
    assert "apt install openjdk-17-jre-headless" in sentence


def test_java_version_is_read_from_the_release_file(machine: Path) -> None:
    home = machine / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('IMPLEMENTOR="X"\nJAVA_VERSION="11.0.2"\n', encoding="utf-8")
    (home / "bin" / "java").symlink_to("/bin/false")
    (home / "bin" / "java").unlink()
    shutil.copy2(shutil.which("false") or "/bin/false", home / "bin" / "java")
    assert "is Java 11.0.2" in refused(machine, JAVA_HOME=str(home))


def test_java_home_without_java_is_reported(machine: Path) -> None:
    java(machine, "17.0.1")
    assert "JAVA_HOME is /nowhere and there is no bin/java in it" in refused(
        machine, JAVA_HOME="/nowhere"
    )


@pytest.mark.parametrize(
    ("system", "told"), [("darwin23", "this is darwin23"), ("linux-musl", "this one has musl")]
)
def test_other_systems_are_refused(machine: Path, system: str, told: str) -> None:
    java(machine, "17.0.1")
    assert f"needs Linux with glibc, on x86-64 or ARM, but {told}" in refused(
        machine, OSTYPE=system
    )


def test_missing_python_is_reported(machine: Path) -> None:
    java(machine, "17.0.1")
    assert "needs Python 3.11 to 3.14, but there is no python3 on the PATH: install it" in refused(
        machine
    )


def test_old_python_is_reported_with_its_version(machine: Path) -> None:
    java(machine, "21.0.1")
    python(machine, "3 10 venv")
    assert f"{machine}/bin/python3 is Python 3.10: install it" in refused(machine)


def test_python_that_is_too_new_is_reported_with_its_version(machine: Path) -> None:
    java(machine, "21.0.1")
    python(machine, "3 15 venv")
    assert f"needs Python 3.11 to 3.14, but {machine}/bin/python3 is Python 3.15: install it" in (
        refused(machine)
    )


def test_debian_python_without_venv_names_the_package_to_install(machine: Path) -> None:
    java(machine, "17")
    python(machine, "3 11 no-venv", "python3.11")
    python(machine, "3 11 no-venv")
    assert "apt install python3.11-venv" in refused(machine)


def test_only_the_python_named_by_the_user_is_tried(machine: Path) -> None:
    java(machine, "17.0.1")
    python(machine, "3 13 venv")
    python(machine, "3 9 venv", "python3.9")
    assert "python3.9 is Python 3.9" in refused(machine, PYTHON="python3.9")
    assert "PYTHON is python4, which is not Python" in refused(machine, PYTHON="python4")


SET_UP = """
set -f
echo "safe=${PYTHONSAFEPATH:-} path=${PYTHONPATH:-}" $* >>"$HOME/calls"
case "$*" in
    *'-c '*) echo 3 13 venv ;;
    *'-m venv '*) mkdir -p "$HOME/tree/.venv/bin" && cp "$0" "$HOME/tree/.venv/bin/python" ;;
    *pyspark.txt | *setuptools.txt)
        cat "$HOME/tree/.venv/pyspark.txt" >>"$HOME/spark" 2>/dev/null ;;
    *'-m pip install'*) exit 1 ;;
esac"""


def set_up_calls(machine: Path, **environment: str) -> list[str]:
    """Return each start of Python up to the installation of packages, which fails here."""
    java(machine, "17.0.1")
    command(machine, "python3", SET_UP)
    for tool in ("sed", "flock"):
        (machine / "bin" / tool).symlink_to(shutil.which(tool) or "/bin/false")
    ended = start(machine, "demo", **environment)
    assert "pip could not install requirements.txt" in ended.stderr
    return (machine / "calls").read_text(encoding="utf-8").splitlines()


def test_packages_are_installed_by_their_hashes_only(machine: Path) -> None:
    installs = [call for call in set_up_calls(machine) if " -m pip " in call]
    assert [call.rpartition("/")[2] for call in installs] == [
        "setuptools.txt",
        "pyspark.txt",
        "requirements.txt",
    ]
    assert all("--require-hashes --no-deps --no-build-isolation" in call for call in installs)
    (spark, *_) = (machine / "spark").read_text(encoding="utf-8").splitlines()
    assert spark.startswith("pyspark==4")
    assert "--compression=stored" in spark


def test_set_up_imports_nothing_from_working_directory(machine: Path) -> None:
    for call in set_up_calls(machine, PYTHONPATH=":/mine::"):
        assert call.startswith("safe=1 path=/mine ")
        assert "-I " in call or "/tree/" in call


def test_python_without_venv_is_skipped_for_one_with_it(machine: Path) -> None:
    java(machine, "17.0.1")
    python(machine, "3 13 no-venv", "python3.13")
    command(
        machine,
        "python3.12",
        'case "$*" in *flock*) exit 0;; *-m\\ venv*) echo tried >&2; exit 1;; esac; echo 3 12 venv',
    )
    ended = start(machine, "demo")
    assert ended.returncode == 1
    assert "tried" in ended.stderr
    assert "python3.12 -m venv failed" in ended.stderr.splitlines()[-1]


def dry(machine: Path, *arguments: str, **environment: str) -> list[str]:
    ended = start(machine, *arguments, WINNOW_DRY="1", **environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


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


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]", "local"])
def test_local_master_sends_nothing(machine: Path, master: str) -> None:
    line = dry(machine, "clean", "/k", "--master", master)
    assert not {"--archives", SITE} & set(line)
    assert f"spark.executorEnv.PYTHONPATH={machine}/tree/lib" in line


def test_driver_on_the_cluster_gets_no_executor_settings(machine: Path) -> None:
    line = dry(machine, "clean", "/k", *CLUSTER, "--deploy-mode", "cluster")
    assert not any(word.startswith(("spark.executorEnv", "spark.pyspark")) for word in line)


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


@pytest.mark.parametrize(
    "arguments",
    [[], ["--help"], ["plan", "--help"], ["--version"], ["inspect", "/k"], ["package"], ["x"]],
)
def test_commands_without_spark_do_not_start_it(machine: Path, arguments: list[str]) -> None:
    tree = machine / "tree"
    assert dry(machine, *arguments) == [
        f"{tree}/.venv/bin/python",
        f"{tree}/jobs/winnow_job.py",
        *arguments,
    ]


def test_link_to_the_script_finds_its_tree(machine: Path) -> None:
    link = machine / "bin" / "winnow"
    link.symlink_to(machine / "tree" / "spark-submit.sh")
    ended = subprocess.run(
        [link, "--version"],
        env={"PATH": str(machine / "bin"), "WINNOW_DRY": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stdout.splitlines()[0] == f"{machine}/tree/.venv/bin/python"


def test_all_scripts_are_executable_and_parse() -> None:
    for name in ("spark-submit.sh", "run-tests.sh", ".ci/run"):
        assert os.access(ROOT / name, os.X_OK)
        subprocess.run(["bash", "-n", str(ROOT / name)], check=True, timeout=60)


def test_class_archive_is_made_again_in_a_moved_checkout(machine: Path) -> None:
    tree = machine / "tree"
    jvm = tree / ".cache" / "jvm"
    jvm.mkdir(parents=True)
    (jvm / "java-17.jsa").touch()
    (jvm / "made-in").write_text(f"{tree}\n", encoding="utf-8")
    ask = "root=$PWD; . lib/set-up.sh; class_archive=$cache/jvm/java-17.jsa; classes_are_archived"

    def is_there(checkout: Path) -> bool:
        command = ["bash", "-euc", ask]
        return subprocess.run(command, cwd=checkout, check=False).returncode == 0

    assert is_there(tree)
    assert not is_there(tree.rename(machine / "moved"))
