#!/usr/bin/env bash
# Run `commit` right before a broker starts: for systemd's ExecStartPre= and for init containers.
#
#     commit-before-start.sh [OPTIONS OF commit] LOG_DIR...
#
# It never keeps the broker from starting. After WINNOW_START_LIMIT seconds (default: 60) `commit`
# gets SIGTERM, and after another sixth of that SIGKILL. If it fails, hangs or is missing, the log
# stays as it is, stderr has a line that says so, and the exit code is 0. With
# WINNOW_START_STRICT=yes the exit code is that of `commit`, unless that is 3 (done, but some
# partitions were left).
set -uo pipefail

say() { printf 'winnow: %s\n' "$*" >&2; }

here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
limit=${WINNOW_START_LIMIT:-60}
if [[ ! $limit =~ ^[1-9][0-9]{0,4}$ ]]; then
    say "WINNOW_START_LIMIT must be a number of seconds, not $limit: 60 is used"
    limit=60
fi

# Nothing is installed while a broker waits. After two thirds of the time no commit is begun.
WINNOW_SET_UP=no timeout --kill-after="$(((limit + 5) / 6))" "$limit" \
    "$here/../spark-submit.sh" commit --timeout "$(((limit * 2 + 2) / 3))s" "$@"
code=$?

case $code in
    0) ;;
    3) say "the commit left preparations out (see above): their logs are as they were" ;;
    124 | 137)
        say "the commit did not end within $limit s and was stopped. Partitions that were not" \
            "committed are as they were; the next start tries again"
        ;;
    *) say "the commit failed with exit code $code (see above): the logs are as they were" ;;
esac
if [[ ${WINNOW_START_STRICT:-} != yes || $code == 3 ]]; then exit 0; fi
exit "$code"
