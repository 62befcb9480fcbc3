"""What `spark-submit.sh` reports when something is missing, and what it installs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.setup.bare_machine import ROOT, bare_machine, command, dry, java, python, start


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return bare_machine(tmp_path)


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


def test_variables_for_other_pythons_are_not_passed_on(machine: Path) -> None:
    java(machine, "17.0.1")
    foreign = {"PYTHONHOME": "/nowhere", "PYTHONINSPECT": "1", "NUMBA_NUM_THREADS": "0"}
    names = "".join(f"${name}" for name in foreign)
    command(machine, "python3", f'echo "{names}" >>{machine}/seen; echo 3 9 venv')
    refused(machine, **foreign)
    assert set((machine / "seen").read_text(encoding="utf-8")) == {"\n"}


def test_machine_without_proc_is_refused(machine: Path) -> None:
    alone = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mount namespace can be made here")
    ended = subprocess.run(
        [*alone, machine / "tree" / "spark-submit.sh", "inspect", "/"],
        env={"PATH": os.environ["PATH"], "HOME": str(machine)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    (sentence,) = ended.stderr.splitlines()
    assert "needs /proc and /dev/fd, and one of them is missing here" in sentence


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a:b", "a#b", "a%20b", "a?b", "a\nb"])
def test_checkout_path_with_special_characters_is_an_error(machine: Path, name: str) -> None:
    (machine / "tree").rename(machine / name)
    (machine / "tree").symlink_to(machine / name)
    ended = start(machine, "demo")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("winnow: the path of this checkout has a character that Java or")
    assert ended.stderr.endswith(f"{machine}/{name}. Move or copy it to another path.\n")


def test_what_java_says_on_stdout_is_shown_if_it_cannot_start(machine: Path) -> None:
    command(machine, "java", "printf 'Could not reserve enough space'; exit 1")
    (machine / "bin" / "load-spark-env.sh").touch()
    script = 'source "$1"; java=$(type -P java); compose_java x'
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script, "bash", ROOT / "lib/winnow/runtime/java.sh"],
        env={"PATH": str(machine / "bin"), "SPARK_HOME": str(machine)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Could not reserve enough space")
    assert "winnow: Java could not compose Spark's command (see its messages above)" in ended.stderr


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


@pytest.mark.parametrize(("umask", "modes"), [(0o077, (0o755, 0o644)), (0, (0o775, 0o664))])
def test_set_up_is_readable_for_others_and_never_writable_whatever_the_umask(
    machine: Path, umask: int, modes: tuple[int, int]
) -> None:
    before = os.umask(umask)
    try:
        set_up_calls(machine)
    finally:
        os.umask(before)
    made = [machine / "tree" / name for name in (".cache", ".venv", ".venv/bin", ".venv/made-by")]
    assert [path.stat().st_mode & 0o777 for path in made] == [modes[0]] * 3 + [modes[1]]


def test_pip_settings_do_not_redirect_the_packages(machine: Path) -> None:
    calls = set_up_calls(machine, PIP_USER="1")
    assert all("--no-user" in call for call in calls if " pip install " in call)


def test_removed_current_directory_is_named(machine: Path, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    script = 'cd "$2" && rmdir "$2" && exec "$1" inspect /'
    ended = subprocess.run(
        ["bash", "-c", script, "bash", machine / "tree" / "spark-submit.sh", tmp_path / "gone"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "the current directory does not exist any more" in ended.stderr.splitlines()[-1]


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


def test_set_up_that_is_forbidden_says_at_once_what_is_missing(machine: Path) -> None:
    """As in a maintenance window, where the broker is stopped."""
    java(machine, "17.0.1")
    python(machine, "3 13 venv")
    sentence = refused(machine, WINNOW_SET_UP="no")
    tree = machine / "tree"
    assert f"Winnow is not set up in {tree}, and WINNOW_SET_UP=no: missing are packages" in sentence
    assert f"Run {tree}/spark-submit.sh set-up while the broker runs" in sentence
    assert set_up_calls(machine, WINNOW_SET_UP="yes")


def test_set_up_is_never_forbidden_to_the_command_that_only_sets_up(machine: Path) -> None:
    java(machine, "17.0.1")
    command(machine, "python3", SET_UP)
    (machine / "bin" / "sed").symlink_to(shutil.which("sed") or "/bin/false")
    ended = start(machine, "set-up", WINNOW_SET_UP="no")
    said = f"setting up what is missing in {machine}/tree, up to 1.3 GB and about 5 minutes, once"
    assert said in ended.stderr
    assert "pip could not install requirements.txt" in ended.stderr


def test_wait_for_another_set_up_shows_its_step_and_ends(machine: Path) -> None:
    java(machine, "17.0.1")
    (machine / "bin" / "python3").symlink_to(sys.executable)
    cache = machine / "tree" / ".cache"
    cache.mkdir()
    (cache / "set-up.step").write_text("process 12, 2 of 5: installing\n")
    with (cache / "set-up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = start(machine, "set-up", WINNOW_SET_UP_WAIT="1")
    assert ended.returncode == 1
    first, *waits, last = ended.stderr.splitlines()
    assert "another start is setting up (process 12, 2 of 5: installing)" in first
    assert "waiting for it, at most 1 s" in first
    assert waits
    assert all("still waiting" in line and "2 of 5" in line for line in waits)
    assert "another start has been setting up for 1 s: process 12, 2 of 5: installing" in last


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


def test_low_limit_of_open_files_is_reported(machine: Path) -> None:
    """Java would fail with a trace of hundreds of lines."""
    python(machine, "3 13 venv")
    java(machine, "17.0.1")
    ended = subprocess.run(
        ["bash", "-c", f"ulimit -n 256; exec {machine}/tree/spark-submit.sh demo"],
        env={"PATH": f"{machine}/bin:/usr/bin:/bin", "HOME": str(machine)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "this user may open only 256: raise the limit (ulimit -n" in ended.stderr


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


def test_cdpath_does_not_matter(machine: Path) -> None:
    (machine / "elsewhere" / "tree").mkdir(parents=True)
    ended = subprocess.run(
        ["bash", "tree/spark-submit.sh", "plan", "/k"],
        cwd=machine,
        env={"PATH": str(machine / "bin"), "CDPATH": f"{machine}/elsewhere:.", "WINNOW_DRY": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert f"{machine}/tree/jobs/winnow_job.py" in ended.stdout.splitlines(), ended.stderr
