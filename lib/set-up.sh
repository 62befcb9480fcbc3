# Sourced by spark-submit.sh and run-tests.sh: finds Python and Java and sets up, once, what is missing beside them.
#
#   .venv                  the virtual environment, with exactly what requirements*.txt say
#   .cache/numba           compiled kernels (.cache/numba-boundscheck: under NUMBA_BOUNDSCHECK=1), and winnow.tar.gz, an
#                          archive of all that executors need, once a cluster was used
#   .cache/jars            Delta Lake for the ledger, as jars.txt says
#   .cache/jvm             an archive of the Java classes that every start loads (half of a start's time)
#
# Nothing outside of the project is written. A start with everything in place runs three small processes and no Python.
# Written for bash 3.2, which macOS still has.
# shellcheck shell=bash

venv=$root/.venv
cache=$root/.cache
kernels=$cache/numba
# numba does not tell kernels with checks of bounds from those without.
if [[ ${NUMBA_BOUNDSCHECK:-} == 1 ]]; then kernels+=-boundscheck; fi
package=$kernels/winnow.tar.gz # goes with them when a source has changed
python_in_venv=$venv/bin/python

# Nothing is imported from the directory that somebody stands in, which may be a log directory of a hostile user: no
# Python puts it first on its path, and an empty entry of PYTHONPATH, which means that directory, is dropped.
export PYTHONSAFEPATH=1

# without_empty PATH: the entries of PATH that are not empty.
without_empty() {
    local entry entries kept=
    IFS=: read -r -a entries <<<"$1"
    for entry in ${entries[@]+"${entries[@]}"}; do
        if [[ -n $entry ]]; then kept+=${kept:+:}$entry; fi
    done
    printf '%s' "$kept"
}

if [[ -n ${PYTHONPATH+set} ]]; then
    PYTHONPATH=$(without_empty "$PYTHONPATH")
    if [[ -z $PYTHONPATH ]]; then unset PYTHONPATH; fi
fi

say() { printf 'winnow: %s\n' "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

# --- Java ------------------------------------------------------------------------------------------------------------

# Sets java_version, or ends with a sentence that says what to do.
find_java() {
    local how='install one (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17;'
    how+=' elsewhere: https://adoptium.net) or let JAVA_HOME name one'
    local java real line
    java_version=
    if [[ -n ${JAVA_HOME:-} ]]; then
        java=$JAVA_HOME/bin/java
        [[ -x $java ]] || fail "Winnow needs Java 17 or newer, but JAVA_HOME is $JAVA_HOME and there is no bin/java in it: $how."
    else
        java=$(type -P java) || fail "Winnow needs Java 17 or newer and there is no java on the PATH: $how."
    fi
    # Every JDK and JRE has a file that names its version; asking Java itself would cost each start 50 ms.
    real=$(readlink -f "$java" 2>/dev/null) || real=$java
    if [[ -r ${real%/bin/java}/release ]]; then
        while IFS= read -r line; do
            [[ $line =~ ^JAVA_VERSION=\"?([0-9][0-9A-Za-z._+-]*) ]] && java_version=${BASH_REMATCH[1]}
        done <"${real%/bin/java}/release"
    fi
    if [[ -z $java_version ]]; then
        line=$("$java" -version 2>&1) || true
        [[ $line =~ version\ \"([^\"]+)\" ]] && java_version=${BASH_REMATCH[1]}
    fi
    [[ $java_version =~ ^([0-9]+)(\.([0-9]+))? ]] || fail "Winnow needs Java 17 or newer, but $java does not tell its version: $how."
    local major=${BASH_REMATCH[1]}
    if ((10#$major == 1)); then major=${BASH_REMATCH[3]:-0}; fi # 1.8.0_292 is Java 8
    ((10#$major >= 17)) || fail "Winnow needs Java 17 or newer, but $java is Java $java_version: $how."
}

# --- Python ----------------------------------------------------------------------------------------------------------

# Sets python to the first interpreter that will do, or ends with a sentence that says what to do.
find_python() {
    local how='install one (Debian 12, Ubuntu 24.04 or newer: apt install python3 python3-venv; macOS: brew install'
    how+=' python@3.13; elsewhere: https://www.python.org/downloads) or let PYTHON name one'
    local ask='
import sys
try:
    import ensurepip, venv
    can = "venv"
except ImportError:
    can = "no-venv"
print("%d %d %s" % (sys.version_info[0], sys.version_info[1], can))'
    local name path answer major minor can too_old='' no_venv='' names=(python3.13 python3.12 python3.11 python3)
    if [[ -n ${PYTHON:-} ]]; then names=("$PYTHON"); fi
    for name in "${names[@]}"; do
        path=$(type -P "$name") || continue
        answer=$("$path" -I -c "$ask" 2>/dev/null) || answer=
        read -r major minor can <<<"$answer" || true
        if [[ ! $major =~ ^[0-9]+$ || ! $minor =~ ^[0-9]+$ ]]; then
            continue
        elif ((major < 3 || (major == 3 && minor < 11))); then
            too_old="$path is Python $major.$minor"
        elif [[ $can != venv ]]; then
            no_venv="Python $major.$minor at $path lacks the module venv, which Debian and Ubuntu ship apart"
            no_venv+=": apt install python$major.$minor-venv"
        else
            python=$path
            return
        fi
    done
    [[ -z $no_venv ]] || fail "$no_venv."
    [[ -z $too_old ]] || fail "Winnow needs Python 3.11 or newer, but $too_old: $how."
    [[ -z ${PYTHON:-} ]] || fail "Winnow needs Python 3.11 or newer, but PYTHON is $PYTHON and that is none: $how."
    fail "Winnow needs Python 3.11 or newer and there is no python3 on the PATH: $how."
}

# --- What is there? --------------------------------------------------------------------------------------------------

# Each answer compares contents or times by means of the shell alone; no Python, no checksums.

same_text() { [[ -r $1 && -r $2 && $(<"$1") == "$(<"$2")" ]]; }

venv_is_there() {
    [[ -x $python_in_venv && -r $venv/made-by ]] || return
    [[ -z ${PYTHON:-} || $(<"$venv/made-by") == "$(type -P "$PYTHON")" ]]
}

is_installed() { venv_is_there && same_text "$root/$1" "$venv/installed-$1"; }

kernels_are_warm() {
    [[ -e $kernels/warm ]] && [[ -z $(find "$root/lib/winnow" -name '*.py' -newer "$kernels/warm") ]]
}

# Files in requirements*.txt, as arguments. The archive may be empty: then this Java can't make one.
is_set_up() {
    local file
    for file in "$@"; do is_installed "$file" || return; done
    same_text "$root/jars.txt" "$cache/jars/fetched" && [[ -e $class_archive ]] && kernels_are_warm
}

# --- Setting up ------------------------------------------------------------------------------------------------------

# Held until this shell lets go of descriptor 9, so that two first starts at once don't step on each other.
# Python's flock, because macOS has no such command.
lock() {
    mkdir -p "$cache" || fail "can't write to $root, where the virtual environment goes: copy the project to a place of yours."
    exec 9>"$cache/set-up.lock"
    "$python" -I -c 'import fcntl
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    raise SystemExit(1)' && return
    say "another start is setting up; waiting for it"
    "$python" -I -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
}

make_venv() {
    venv_is_there && return
    say "making a virtual environment with $python in $venv"
    rm -rf "$venv"
    "$python" -I -m venv "$venv" >&2 || fail "$python -m venv failed (its own words are above); .venv is not usable."
    type -P "$python" >"$venv/made-by"
}

# requirement NAME [OPTION]: this one of requirements.txt with its hashes.
requirement() {
    sed -n -e "/^$1==/,/[^\\\\]\$/p" "$root/requirements.txt" | sed -e "1s|^\([^ ]*\)|\1${2:-}|"
}

install() { # FILE: the note of what was installed comes last, so that a start cut short is done again
    is_installed "$1" && return
    say "installing what $1 says (the first time this takes a minute or two)"
    rm -f "$venv/installed-$1"
    # The archive knows Spark's jars by their times.
    [[ $1 != requirements.txt ]] || rm -f "$cache"/jvm/*.jsa
    # Every package is in the files, with its hashes. What builds those without a wheel would come without: it is one of them.
    local pip=("$python_in_venv" -m pip install --quiet --no-input --no-compile --disable-pip-version-check
        --require-hashes --no-deps --no-build-isolation --use-pep517)
    if [[ $1 == requirements.txt ]]; then
        requirement setuptools >"$venv/setuptools.txt" && "${pip[@]}" -r "$venv/setuptools.txt" >&2 || true
        # Of Spark there is no wheel. One that is not packed tight is made in half the time, by any pip that knows how.
        requirement pyspark ' --config-settings="--build-option=--compression=stored"' >"$venv/pyspark.txt"
        "${pip[@]}" -r "$venv/pyspark.txt" 2>/dev/null || true
    fi
    "${pip[@]}" -r "$root/$1" >&2 ||
        fail "pip could not install $1 (its own words are above); it obeys its usual settings, such as PIP_INDEX_URL and HTTPS_PROXY."
    cp "$root/$1" "$venv/installed-$1.new" && mv "$venv/installed-$1.new" "$venv/installed-$1"
}

fetch_jars() { # likewise
    same_text "$root/jars.txt" "$cache/jars/fetched" && return
    say "fetching the jars of Delta Lake (13 MB)"
    rm -f "$cache/jars/fetched" "$cache"/jvm/*.jsa
    "$python_in_venv" "$root/lib/fetch_jars.py" "$root/jars.txt" "$cache/jars" >&2 ||
        fail "Delta Lake, which the ledger is kept in, could not be fetched (see above)."
    cp "$root/jars.txt" "$cache/jars/fetched.new" && mv "$cache/jars/fetched.new" "$cache/jars/fetched"
}

warm_kernels() {
    kernels_are_warm && return
    say "compiling the kernels"
    rm -rf "$kernels" # numba looks at a kernel's own file only, not at those that it calls
    mkdir -p "$kernels" && touch "$kernels/warming"
    "$python_in_venv" -m winnow.worker.warm_up >&2 || fail "the kernels could not be compiled (Python's own words are above)."
    mv "$kernels/warming" "$kernels/warm" # as old as the start of the compilation
}

make_package() { # after set_up: only who sends it to executors needs it
    [[ $package -nt $venv/installed-requirements.txt ]] && return
    say "packing what executors need"
    "$python_in_venv" "$root/jobs/winnow_job.py" package --quiet --output "$package" >/dev/null ||
        fail "what executors need could not be packed (see above)."
}

archive_classes() {
    [[ -e $class_archive ]] && return
    say "archiving Java's classes"
    mkdir -p "$cache/jvm"
    rm -f "$cache"/jvm/*.jsa "$class_archive.new"
    SPARK_SUBMIT_OPTS="-XX:ArchiveClassesAtExit=\"$class_archive.new\" -Xlog:disable" "$SPARK_HOME/bin/spark-submit" \
        --properties-file "$root/conf/spark-defaults.conf" --master 'local[2]' "$root/jobs/first_job.py" \
        >"$cache/jvm/log" 2>&1 || say "a first Spark job failed; see $cache/jvm/log"
    # Without an archive everything works, a little slower: an empty one says not to try again.
    [[ -s $class_archive.new ]] || : >"$class_archive.new"
    mv "$class_archive.new" "$class_archive"
}

# Exports what Spark, its workers and the tests need to find each other.
export_environment() {
    local home
    for home in "$venv"/lib/python*/site-packages/pyspark; do export SPARK_HOME=$home; done
    export PYTHONPATH=$root/lib${PYTHONPATH:+:$PYTHONPATH}
    export PYSPARK_PYTHON=$python_in_venv PYSPARK_DRIVER_PYTHON=$python_in_venv
    export NUMBA_CACHE_DIR=$kernels
    # After Spark's own jars, and on the JVM's class path: only of classes from there Java keeps an archive.
    export SPARK_DIST_CLASSPATH=${SPARK_DIST_CLASSPATH:+$SPARK_DIST_CLASSPATH:}$cache/jars/*
    # The little JVM that puts spark-submit's command together. It would open Spark's jars one by one to find itself. What
    # spark-submit does with these options takes a space in a path for the end of it.
    local launcher='-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC' jar
    for jar in "${SPARK_HOME:-}"/jars/spark-launcher_*.jar; do
        if [[ $jar != *[[:space:]*?]* && -r $jar ]]; then launcher+=" -Xbootclasspath/a:$jar"; fi
    done
    export SPARK_LAUNCHER_OPTS=${SPARK_LAUNCHER_OPTS:-$launcher}
}

compile_packages() { # what was not imported so far: who can't write here would compile it at each start
    local nobody_imports='/site-packages/((pip|setuptools|pkg_resources)/|.*/tests?/)'
    "$python_in_venv" -m compileall -q -x "$nobody_imports" "$venv"/lib/python*/site-packages >/dev/null 2>&1 || true # not all is meant to be
}

# Java's classes, the kernels, and the requirements in FILE...: none needs another, and each keeps one core busy.
side_by_side() {
    local file jobs=() job failed=0
    set -m # each in a process group of its own, that goes if this start is interrupted
    (export SPARK_LOCAL_IP=127.0.0.1 && archive_classes && compile_packages) & jobs+=($!)
    (warm_kernels) & jobs+=($!)
    set +m
    trap 'kill -- "${jobs[@]/#/-}" 2>/dev/null || true' EXIT
    for file in "$@"; do (install "$file") || failed=$?; done
    for job in "${jobs[@]}"; do wait "$job" || failed=$?; done
    trap - EXIT
    ((failed == 0)) || exit "$failed"
}

# set_up FILE...: afterwards the requirements in these files are installed and the environment is exported. The first are
# those of Winnow itself.
set_up() {
    find_java
    class_archive=$cache/jvm/java-$java_version.jsa
    if is_set_up "$@"; then
        export_environment
        return
    fi
    find_python
    lock
    make_venv
    install "$1"
    export_environment
    fetch_jars
    side_by_side "${@:2}"
    exec 9>&-
    say "ready"
}
