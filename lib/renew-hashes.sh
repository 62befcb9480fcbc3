#!/usr/bin/env bash
# Update the hashes in requirements*.txt. Change a version there by hand, then run this script.
# It includes every file that is published for a version: wheels of all platforms and the source.
set -euo pipefail
unset CDPATH

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -I -m venv "$work/venv"
"$work/venv/bin/python" -I -m pip install --quiet --disable-pip-version-check uv==0.13.9
for file in requirements.txt requirements-dev.txt; do
    grep '^#' "$root/$file" >"$work/new"
    sed -e '/^#/d' -e '/^ *--hash/d' -e 's/ *\\$//' "$root/$file" >"$work/pins.txt"
    "$work/venv/bin/uv" pip compile --quiet --no-deps --universal --python-version 3.11 \
        --generate-hashes --no-header --no-annotate "$work/pins.txt" >>"$work/new"
    cat "$work/new" >"$root/$file"
done
