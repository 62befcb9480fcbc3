#!/usr/bin/env bash
# Run all tests: `./run-tests.sh`. Arguments are passed to pytest: `./run-tests.sh tests/unit -x`.
# With --boundscheck as the first argument, kernels check the bounds of every array. That takes
# several times as long. Sets up like spark-submit.sh, plus requirements-dev.txt. Tests that need
# Kafka's jars fetch them.
set -euo pipefail
unset CDPATH # with it, cd may go elsewhere, and prints where

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
if [[ ${1:-} == --boundscheck ]]; then
    shift
    export NUMBA_BOUNDSCHECK=1
fi
# shellcheck source=lib/set-up.sh
source "$root/lib/set-up.sh"

set_up requirements.txt requirements-dev.txt
export SPARK_LOCAL_IP=${SPARK_LOCAL_IP:-127.0.0.1}
# Spark's JVMs live only for seconds here, so they compile little, as in Winnow's own jobs.
quick="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC $quiet_java"
if [[ -s $class_archive ]]; then quick+=" -XX:SharedArchiveFile=\"$class_archive\""; fi
export SPARK_SUBMIT_OPTS="$quick${SPARK_SUBMIT_OPTS:+ $SPARK_SUBMIT_OPTS}"
cd "$root"
# For all tests: three processes, each with a whole file at a time, in the order of
# tests/conftest.py.
(($#)) || set -- --numprocesses 3 --dist loadfile --no-loadscope-reorder
exec "$python_in_venv" -m pytest "$@"
