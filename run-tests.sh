#!/usr/bin/env bash
# All tests: `./run-tests.sh`; arguments go to pytest: `./run-tests.sh tests/unit -x`.
# With --boundscheck before them, kernels check the bounds of every array; they then take several times as long.
# Sets up like spark-submit.sh, plus what requirements-dev.txt says. Kafka's jars are fetched by the tests that need them.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
if [[ ${1:-} == --boundscheck ]]; then
    shift
    export NUMBA_BOUNDSCHECK=1
fi
# shellcheck source=lib/set-up.sh
source "$root/lib/set-up.sh"

set_up requirements.txt requirements-dev.txt
export SPARK_LOCAL_IP=${SPARK_LOCAL_IP:-127.0.0.1}
# Spark's JVMs live for seconds here, those of notebooks and scripts as well: they compile little, as Winnow's jobs do.
quick="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=error:stderr"
if [[ -s $class_archive ]]; then quick+=" -XX:SharedArchiveFile=\"$class_archive\""; fi
export SPARK_SUBMIT_OPTS="$quick${SPARK_SUBMIT_OPTS:+ $SPARK_SUBMIT_OPTS}"
cd "$root"
# All of them: two processes side by side, each with a whole file at a time, in the order of tests/conftest.py.
(($#)) || set -- --numprocesses 2 --dist loadfile --no-loadscope-reorder
exec "$python_in_venv" -m pytest "$@"
