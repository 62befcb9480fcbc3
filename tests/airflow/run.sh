#!/usr/bin/env bash
# Run the example DAG in a real Airflow: `tests/airflow/run.sh`. It first installs Airflow in
# .cache/airflow, which takes some minutes, so it is not part of CI. RESULT.md beside this file has
# the last result (--record writes it).
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=lib/set-up.sh
source "$root/lib/set-up.sh"

set_up requirements.txt requirements-dev.txt
airflow=$root/.cache/airflow
if ! cmp -s "$root/tests/airflow/requirements.txt" "$airflow/installed"; then
    say "installing Airflow in .cache/airflow (some minutes)"
    [[ -x $airflow/bin/python ]] || "$python_in_venv" -m venv "$airflow"
    "$airflow/bin/python" -m pip install --quiet --no-input --disable-pip-version-check \
        -r "$root/tests/airflow/requirements.txt"
    cp "$root/tests/airflow/requirements.txt" "$airflow/installed"
fi
cd "$root"
exec "$python_in_venv" -m tests.airflow.check "$airflow/bin/airflow" "$@"
