# Sourced by spark-submit.sh and run-tests.sh. Finds Python, and installs what is missing:
#
#   .venv                  the virtual environment, with exactly the packages of requirements*.txt
#   .cache/numba           compiled kernels, and winnow.tar.gz, an archive for executors, once a
#                          cluster was used
#   .cache/jars            Delta Lake for the ledger: the jars of conf/jars.txt
#   .cache/jvm             an archive of the Java classes that every start loads; it halves the
#                          time of a start
#
# Writes nothing outside the project. If everything is installed, a start runs three small processes
# and no Python.
# shellcheck shell=bash

venv=$root/.venv
cache=$root/.cache
jars=$root/conf/jars.txt
kernels=$cache/numba
warm=$kernels/warm
if [[ ${NUMBA_BOUNDSCHECK:-} == 1 ]]; then warm+=-boundscheck; fi
package=$kernels/winnow.tar.gz # removed with the kernels when a source has changed
python_in_venv=$venv/bin/python
# shellcheck source=lib/winnow/runtime/java.sh
source "$root/lib/winnow/runtime/java.sh"

# Import nothing from the current directory, which may be a log directory of a hostile user. Python
# does not put it on its path, and empty entries of PYTHONPATH, which mean that directory, are
# removed.
export PYTHONSAFEPATH=1

# without_empty PATH: print PATH without its empty entries.
without_empty() {
    local entry entries kept=
    IFS=: read -r -a entries <<<"$1"
    for entry in ${entries[@]+"${entries[@]}"}; do
        if [[ -n $entry ]]; then kept+=${kept:+:}$entry; fi
    done
    printf '%s' "$kept"
}

# With these, set for another program, Python would not start, or run otherwise than tested.
unset PYTHONHOME PYTHONINSPECT PYTHONOPTIMIZE PYTHONWARNINGS PYTHONDEVMODE PYTHONHASHSEED
unset PYTHONSTARTUP PYTHONVERBOSE PYTHONDEBUG NUMBA_DISABLE_JIT NUMBA_NUM_THREADS

if [[ -n ${PYTHONPATH+set} ]]; then
    PYTHONPATH=$(without_empty "$PYTHONPATH")
    if [[ -z $PYTHONPATH ]]; then unset PYTHONPATH; fi
fi

# --- Python ---------------------------------------------------------------------------------------

# Set python to the first suitable interpreter, or exit with a message that says what to do.
find_python() {
    local how='install it (Debian 12, Ubuntu 24.04 or newer: apt install python3 python3-venv;'
    how+=' elsewhere: https://www.python.org/downloads)'
    how+=' or set PYTHON'
    local ask='
import sys
try:
    import ensurepip, venv
    can = "venv"
except ImportError:
    can = "no-venv"
print("%d %d %s" % (sys.version_info[0], sys.version_info[1], can))'
    local name path answer major minor can other='' no_venv=''
    local needs='Winnow needs Python 3.11 to 3.14'
    local names=(python3.14 python3.13 python3.12 python3.11 python3) made_for platform
    if [[ -r $cache/offline/made-for ]]; then
        read -r made_for platform <"$cache/offline/made-for" || true
        names=("python$made_for")
        needs="This checkout came from an archive for Python $made_for on $platform"
    fi
    if [[ -n ${PYTHON:-} ]]; then names=("$PYTHON"); fi
    for name in "${names[@]}"; do
        path=$(type -P "$name") || continue
        answer=$("$path" -I -c "$ask" 2>/dev/null) || answer=
        read -r major minor can <<<"$answer" || true
        if [[ ! $major =~ ^[0-9]+$ || ! $minor =~ ^[0-9]+$ ]]; then
            continue
        elif ((major != 3 || minor < 11 || minor > 14)); then
            other="$path is Python $major.$minor"
        elif [[ $can != venv ]]; then
            no_venv="Python $major.$minor at $path lacks the module venv, which is a separate"
            no_venv+=" package on Debian and Ubuntu: apt install python$major.$minor-venv"
        else
            python=$path
            return
        fi
    done
    [[ -z $no_venv ]] || fail "$no_venv."
    [[ -z $other ]] || fail "$needs, but $other: $how."
    [[ -z ${PYTHON:-} ]] || fail "$needs, but PYTHON is $PYTHON, which is not Python: $how."
    fail "$needs, but there is no python3 on the PATH: $how."
}

# --- What is installed ----------------------------------------------------------------------------

# These functions compare contents or times with the shell alone, without Python or checksums.

same_text() { [[ -r $1 && -r $2 && $(<"$1") == "$(<"$2")" ]]; }

venv_is_there() {
    [[ -x $python_in_venv && -r $venv/made-by ]] || return
    [[ -z ${PYTHON:-} || $(<"$venv/made-by") == "$(type -P "$PYTHON")" ]]
}

is_installed() { venv_is_there && same_text "$root/$1" "$venv/installed-$1"; }

# In a copy, every source may be newer than the kernels. Then contents decide.
kernels_are_warm() {
    [[ -e $warm ]] || return
    # `find` returns to where it began: this user may not enter the current directory.
    [[ -z $(cd "$root/lib/winnow" && find . -name '*.py' -newer "$warm") ]] ||
        [[ $(sum_of_sources) == $(<"$warm") ]]
}

sum_of_sources() {
    (cd "$root/lib/winnow" && find . -name '*.py' | LC_ALL=C sort | xargs cat | cksum)
}

# Java uses a class archive only where it was made: not in a checkout that was moved or copied. The
# archive may be empty: then this Java can't make one.
classes_are_archived() {
    [[ -e $class_archive && -r $cache/jvm/made-in && $(<"$cache/jvm/made-in") == "$root" ]]
}

# needed FILE...: print what is missing without which nothing runs. The arguments are requirements
# files.
needed() {
    local file missing=()
    for file in "$@"; do is_installed "$file" || missing+=("packages of $file"); done
    if [[ ${verb:-} != commit ]]; then # that needs neither Spark nor compiled code
        same_text "$jars" "$cache/jars/fetched" || missing+=("Delta Lake's jars")
        kernels_are_warm || missing+=('compiled kernels')
    fi
    printf '%s' "${missing[0]-}"
    if ((${#missing[@]} > 1)); then printf ', %s' "${missing[@]:1}"; fi
}

# is_set_up FILE...: the arguments are requirements files.
is_set_up() {
    [[ -z $(needed "$@") ]] &&
        { [[ ${verb:-} == commit || ! -w $cache/jvm ]] || classes_are_archived; }
}

# --- Set-up ---------------------------------------------------------------------------------------

# Take a lock, so that two first starts do not interfere. The lock is held until this shell closes
# descriptor 9. It uses Python's flock, which needs no package.
lock() {
    if ! { mkdir -p "$cache" && : >"$cache/set-up.lock"; } 2>/dev/null; then
        if [[ -r $venv/made-by && ! -x $python_in_venv ]]; then
            fail "you can't run $(<"$venv/made-by"), with which the owner of $root set Winnow up:" \
                "let the owner set it up with another, as in PYTHON=/usr/bin/python3" \
                "./spark-submit.sh --version, or copy the project to your own directory."
        fi
        fail "Winnow is not completely set up, and you can't write to $cache: let the owner of" \
            "$root run ./spark-submit.sh once, or copy the project to your own directory."
    fi
    exec 9>"$cache/set-up.lock"
    "$python" -I -c "$wait_for_lock" "$cache/set-up.step" "${WINNOW_SET_UP_WAIT:-1800}" >&2 ||
        exit 1
}

# Wait until descriptor 9 is locked, with a line from time to time. Arguments: the file of `step`,
# and the longest wait in seconds. Exit with 1 after it.
wait_for_lock='
import fcntl, sys, time
file, most = sys.argv[1], float(sys.argv[2])
began = last = time.monotonic()
def say(words):
    print(f"winnow: {words}", flush=True)
def step():
    try:
        return open(file).read().strip()
    except OSError:
        return "its step is unknown"
while True:
    try:
        fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
        break
    except BlockingIOError:
        now = time.monotonic()
    if now - began > most:
        say(
            f"another start has been setting up for {most:.0f} s: {step()}. "
            "End that process if it hangs, then start again."
        )
        sys.exit(1)
    if last == began:
        say(f"another start is setting up ({step()}); waiting for it, at most {most:.0f} s")
        last = now
    elif now - last > min(15, most / 4):
        say(f"still waiting, {now - began:.0f} s: {step()}")
        last = now
    time.sleep(0.1)
'

# step WORDS...: say what set-up does, and keep it for those who wait for it.
step() {
    say "$*"
    printf '%s\n' "process $$, $*" >"$cache/set-up.step"
}

make_venv() {
    venv_is_there && return
    step "1 of 5: creating a virtual environment with $python"
    rm -rf "$venv"
    # Kernels are of one version of Python. Those of an archive are of this one.
    [[ -r $cache/offline/made-for ]] || rm -rf "$kernels"
    "$python" -I -m venv "$venv" >&2 ||
        fail "$python -m venv failed (see its messages above); .venv is not usable."
    type -P "$python" >"$venv/made-by"
}

# requirement NAME [OPTION]: print this entry of requirements.txt with its hashes.
requirement() {
    sed -n -e "/^$1==/,/[^\\\\]\$/p" "$root/requirements.txt" | sed -e "1s|^\([^ ]*\)|\1${2:-}|"
}

# install_offline FILE: move the packages of an archive by `package --offline` into place. Nothing
# is copied, since the disk may be full, and an interrupted start goes on.
install_offline() {
    local entry site
    for site in "$venv"/lib/python3*/site-packages; do :; done
    for entry in "$cache"/offline/site/*; do
        if [[ -e $entry ]]; then rm -rf "${site:?}/${entry##*/}" && mv "$entry" "$site/"; fi
    done
    rmdir "$cache/offline/site"
    cp "$root/$1" "$venv/installed-$1.new" && mv "$venv/installed-$1.new" "$venv/installed-$1"
}

# install FILE: the copy of FILE that marks it as installed is written last, so an interrupted start
# is repeated.
install() {
    is_installed "$1" && return
    if [[ $1 == requirements.txt && -d $cache/offline/site ]]; then
        install_offline "$1"
        return
    fi
    step "2 of 5: installing the packages of $1 (most of the time)"
    rm -f "$venv/installed-$1"
    # The class archive is valid only for Spark's jars with the same file times.
    [[ $1 != requirements.txt ]] || rm -f "$cache"/jvm/*.jsa
    # All packages are in the files, with hashes. --no-build-isolation prevents pip from fetching
    # build tools without checking hashes; requirements.txt contains setuptools.
    unset PIP_TARGET PIP_PREFIX PIP_ROOT # with --no-user: into .venv, whatever this user's settings
    local pip=("$python_in_venv" -m pip install --quiet --no-input --no-compile --no-user
        --disable-pip-version-check --require-hashes --no-deps --no-build-isolation --use-pep517)
    if [[ $1 == requirements.txt ]]; then
        requirement setuptools >"$venv/setuptools.txt" &&
            "${pip[@]}" -r "$venv/setuptools.txt" >&2 || true
        # Spark has no wheel. pip builds an uncompressed one in half the time, if it supports that.
        requirement pyspark ' --config-settings="--build-option=--compression=stored"' \
            >"$venv/pyspark.txt"
        "${pip[@]}" -r "$venv/pyspark.txt" 2>/dev/null || true
    fi
    "${pip[@]}" -r "$root/$1" >&2 ||
        fail "pip could not install $1 (see its messages above)." \
            "You can use pip's settings, such as PIP_INDEX_URL and HTTPS_PROXY."
    cp "$root/$1" "$venv/installed-$1.new" && mv "$venv/installed-$1.new" "$venv/installed-$1"
}

fetch_jars() { # marked in the same way
    same_text "$jars" "$cache/jars/fetched" && return
    step "3 of 5: fetching the jars of Delta Lake (13 MB)"
    rm -f "$cache/jars/fetched" "$cache"/jvm/*.jsa
    "$python_in_venv" "$root/lib/winnow/ledger/fetch_jars.py" "$jars" "$cache/jars" >&2 ||
        fail "could not fetch Delta Lake, which the ledger needs (see above)."
    cp "$jars" "$cache/jars/fetched.new" &&
        mv "$cache/jars/fetched.new" "$cache/jars/fetched"
}

warm_kernels() {
    kernels_are_warm && return
    step "4 of 5: compiling the kernels"
    local sum
    sum=$(sum_of_sources)
    # Kernels of older sources are not used any more.
    [[ $(sort -u "$kernels"/warm* 2>/dev/null) == "$sum" ]] || rm -rf "$kernels"
    mkdir -p "$kernels" && printf '%s\n' "$sum" >"$warm.new"
    (unset NUMBA_CACHE_DIR && "$python_in_venv" -m winnow.worker.warm_up >&2) ||
        fail "could not compile the kernels (see Python's messages above)."
    mv "$warm.new" "$warm" # its time is the start of the compilation
}

make_package() { # after set_up, and only if it is sent to executors
    [[ $package -nt $venv/installed-requirements.txt ]] && return
    say "packing the archive for executors"
    "$python_in_venv" "$root/jobs/winnow_job.py" package --quiet --output "$package" >/dev/null ||
        fail "could not pack the archive for executors (see above)."
}

archive_classes() {
    classes_are_archived && return
    step "5 of 5: creating the class data archive (CDS) of Java, in parallel with step 4"
    mkdir -p "$cache/jvm"
    rm -f "$cache/jvm/java-${java_version%%.*}".* # of an older release of this version
    [[ -r $cache/jvm/made-in && $(<"$cache/jvm/made-in") == "$root" ]] || rm -f "$cache"/jvm/*.jsa
    printf '%s\n' "$root" >"$cache/jvm/made-in"
    export SPARK_SUBMIT_OPTS="-XX:ArchiveClassesAtExit=\"$class_archive.new\" -Xlog:disable"
    SPARK_SUBMIT_OPTS+=" -Djava.io.tmpdir=\"$cache/jvm\" -XX:-UsePerfData"
    SPARK_SUBMIT_OPTS+=" -Duser.home=\"$cache/jvm\"" # this user may have none
    compose_java --properties-file "$root/conf/spark-defaults.conf" --master 'local[2]' \
        "$root/jobs/first_job.py"
    "${started[@]}" >"$cache/jvm/log" 2>&1 ||
        say "a first Spark job failed; see $cache/jvm/log"
    # Everything works without an archive, only slower. An empty file prevents another attempt.
    [[ -s $class_archive.new ]] || : >"$class_archive.new"
    mv "$class_archive.new" "$class_archive"
}

# Export the variables that Spark, its workers and the tests need.
export_environment() {
    local home
    for home in "$venv"/lib/python*/site-packages/pyspark; do export SPARK_HOME=$home; done
    # The pinned packages come before those of the user's PYTHONPATH.
    PYTHONPATH=$root/lib${SPARK_HOME:+:${SPARK_HOME%/pyspark}}${PYTHONPATH:+:$PYTHONPATH}
    export PYTHONPATH
    export PYSPARK_PYTHON=$python_in_venv PYSPARK_DRIVER_PYTHON=$python_in_venv
    # This puts the jars after Spark's own, on the JVM's class path. Java archives only classes from
    # there.
    export SPARK_DIST_CLASSPATH=${SPARK_DIST_CLASSPATH:+$SPARK_DIST_CLASSPATH:}$cache/jars/*
    # A small JVM composes spark-submit's command. Without its own jar first, it would open all of
    # Spark's jars. spark-submit splits these options at spaces, so a path must not have any.
    local launcher='-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC' jar
    launcher+=' -XX:-UsePerfData' # which is in /tmp
    for jar in "${SPARK_HOME:-}"/jars/spark-launcher_*.jar; do
        if [[ $jar != *[[:space:]*?]* && -r $jar ]]; then launcher+=" -Xbootclasspath/a:$jar"; fi
    done
    export SPARK_LAUNCHER_OPTS=${SPARK_LAUNCHER_OPTS:-$launcher}
}

# Compile modules that have not been imported yet. A user who can't write here would otherwise
# compile them at each start. Some files are not meant to be compiled, so errors are ignored.
compile_packages() {
    local never_imported='/site-packages/((pip|setuptools|pkg_resources)/|.*/tests?/)'
    "$python_in_venv" -m compileall -q -x "$never_imported" \
        "$venv"/lib/python*/site-packages >/dev/null 2>&1 || true
}

# side_by_side FILE...: archive Java's classes, compile the kernels and install the requirements in
# FILE..., all at the same time. They are independent, and each keeps one core busy.
side_by_side() {
    local file jobs=() job failed=0
    set -m # each has its own process group, which is killed if this start is interrupted
    (export SPARK_LOCAL_IP=127.0.0.1 && archive_classes && compile_packages) & jobs+=($!)
    (warm_kernels) & jobs+=($!)
    set +m
    trap 'kill -- "${jobs[@]/#/-}" 2>/dev/null || true' EXIT
    for file in "$@"; do (install "$file") || failed=$?; done
    for job in "${jobs[@]}"; do wait "$job" || failed=$?; done
    trap - EXIT
    ((failed == 0)) || exit "$failed"
}

# set_up FILE...: install the requirements in these files and export the environment. The first file
# is that of Winnow itself.
set_up() {
    check_system
    case $root in
        *[\"\\:#%?$'\n']*)
            fail "the path of this checkout has a character that Java or Spark would misread, one" \
                'of " \ : # % ? or a line end:' "$root. Move or copy it to another path."
            ;;
    esac
    find_java
    class_archive=$cache/jvm/java-$java_version.jsa
    if is_set_up "$@"; then
        export_environment
        return
    fi
    if [[ ${WINNOW_SET_UP:-} == no && ${verb:-} != set-up ]]; then
        local missing
        missing=$(needed "$@")
        if [[ -n $missing ]]; then
            fail "Winnow is not set up in $root, and WINNOW_SET_UP=no: missing are $missing." \
                "Run $root/spark-submit.sh set-up while the broker runs."
        fi
        export_environment # only the archive of classes is missing, so Java starts slower
        return
    fi
    find_python
    # Others may use what root sets up, but never change it, whatever root's umask. The checkout's
    # directory decides.
    local mask
    mask=$(umask)
    umask "$(printf '%o' $((8#$mask & 8#722 | 8#002)))"
    lock
    local -x TMPDIR=$cache # /tmp may be too small for the packages
    if is_installed "$1"; then
        say "setting up what is missing in $root"
    else
        say "setting up what is missing in $root, up to 1.3 GB and about 5 minutes, once"
    fi
    make_venv
    install "$1"
    export_environment
    fetch_jars
    side_by_side "${@:2}"
    exec 9>&-
    umask "$mask"
    say "ready after $SECONDS s; later starts need no network"
}
