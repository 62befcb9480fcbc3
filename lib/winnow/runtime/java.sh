#!/usr/bin/env bash
# Starts Spark's Java process as Winnow needs it. lib/set-up.sh sources this file. The command of an
# installed wheel has pyspark start it instead of Spark's own script, with the same arguments.
# shellcheck shell=bash

say() { printf 'winnow: %s\n' "$*" >&2; }

fail() {
    say "$*"
    exit 1
}

# --- System ---------------------------------------------------------------------------------------

check_system() {
    local needs='Winnow needs Linux with glibc, on x86-64 or ARM'
    case $OSTYPE in
        linux-musl*) fail "$needs, but this one has musl: use an image of Debian instead." ;;
        linux*) ;;
        *) fail "$needs, but this is $OSTYPE: run it on Linux, or in a container." ;;
    esac
    pwd -P >/dev/null 2>&1 ||
        fail "the current directory does not exist any more: change to another (cd) and run again."
    [[ -d /proc/self/fd && -d /dev/fd/ ]] ||
        fail "Winnow needs /proc and /dev/fd, and one of them is missing here. In a chroot, first" \
            "mount them in it: mount -t proc proc ROOT/proc; mount --rbind /dev ROOT/dev."
}

# --- Java -----------------------------------------------------------------------------------------

# Set java and java_version, or exit with a message that says what to do.
find_java() {
    local how='install it (Debian, Ubuntu: apt install openjdk-17-jre-headless;'
    how+=' elsewhere: https://adoptium.net) or set JAVA_HOME'
    local real line
    java_version=
    if [[ -n ${JAVA_HOME:-} ]]; then
        java=$JAVA_HOME/bin/java
        [[ -x $java ]] ||
            fail "Winnow needs Java 17 or newer, but JAVA_HOME is $JAVA_HOME" \
                "and there is no bin/java in it: $how."
    else
        java=$(type -P java) ||
            fail "Winnow needs Java 17 or newer, but there is no java on the PATH: $how."
    fi
    # Every JDK and JRE has a file with its version. Running Java would cost 50 ms per start.
    real=$(readlink -f "$java" 2>/dev/null) || real=$java
    if [[ -r ${real%/bin/java}/release ]]; then
        while IFS= read -r line; do
            [[ $line =~ ^JAVA_VERSION=\"?([0-9][0-9A-Za-z._+-]*) ]] &&
                java_version=${BASH_REMATCH[1]}
        done <"${real%/bin/java}/release"
    fi
    if [[ -z $java_version ]]; then
        line=$("$java" -version 2>&1) || true
        [[ $line =~ version\ \"([^\"]+)\" ]] && java_version=${BASH_REMATCH[1]}
    fi
    [[ $java_version =~ ^([0-9]+)(\.([0-9]+))? ]] ||
        fail "Winnow needs Java 17 or newer, but the version of $java is unknown: $how."
    local major=${BASH_REMATCH[1]}
    if ((10#$major == 1)); then major=${BASH_REMATCH[3]:-0}; fi # 1.8.0_292 is Java 8
    ((10#$major >= 17)) ||
        fail "Winnow needs Java 17 or newer, but $java is Java $java_version: $how."
}

# Without these, Java would write its warnings, and why it can't start, to stdout. Its performance
# data would be in /tmp. Delta names files by numbers, and Java writes numbers in the digits of the
# user's language.
quiet_java='-Xlog:disable -Xlog:all=error:stderr -Xlog:cds*=off:stderr -XX:-UsePerfData'
quiet_java+=' -XX:+DisplayVMOutputToStderr -Duser.language=en'

# Java and Python talk over 127.0.0.1. Nobody listens at this port: the connection is refused.
check_loopback() {
    local told
    told=$({ LC_ALL=C && : </dev/tcp/127.0.0.1/1; } 2>&1) || [[ $told != *unreachable* ]] ||
        fail "Spark's processes talk over 127.0.0.1, which can't be reached here: bring up the" \
            "loopback interface (ip link set lo up)."
}

# Java raises the limit of this user as far as it may. Spark fails with 256.
check_open_files() {
    local most
    most=$(ulimit -Hn)
    [[ $most == unlimited ]] || ((most >= 512)) ||
        fail "Spark has to open 512 files, but this user may open only $most:" \
            "raise the limit (ulimit -n, or LimitNOFILE in systemd)."
}

# Without a locale, as under cron, Java can't open files whose names are not ASCII.
choose_locale() {
    case ${LC_ALL:-${LC_CTYPE:-${LANG:-C}}} in C | POSIX) export LC_ALL=C.UTF-8 ;; esac
}

# compose_java ARGUMENT...: set `started` to the command with which spark-submit starts Java for
# these arguments. With two of Spark's own options, each start would print a warning: one loads an
# incubator module for machine learning, the other opens a package that Java 24 and newer lack.
compose_java() {
    local part option first=yes
    started=()
    set +eu # Spark's script expects neither
    # shellcheck source=/dev/null
    source "$SPARK_HOME/bin/load-spark-env.sh"
    set -eu
    export PYTHONHASHSEED=0
    # After what Java may have printed come a null byte, a newline, and each argument with its own.
    while IFS= read -r -d '' part; do
        option=$part
        if ((${#started[@]} == 0)); then option=${part#$'\n'}; fi
        if [[ -n $first ]]; then
            first=
        elif [[ $option == --add-modules=jdk.incubator.vector ]]; then
            continue
        elif [[ $option != --add-opens=java.base/sun.security.action=* ]] ||
            ((10#${java_version%%.*} < 24)); then
            started+=("$option")
        fi
    done < <(
        # shellcheck disable=SC2086 # these are several options
        "$java" -Xmx128m -XX:+DisplayVMOutputToStderr ${SPARK_LAUNCHER_OPTS:-} \
            -cp "$SPARK_HOME/jars/*" \
            org.apache.spark.launcher.Main org.apache.spark.deploy.SparkSubmit "$@"
    )
    ((${#started[@]})) && return
    printf '%s' "$part" >&2
    fail "Java could not compose Spark's command (see its messages above). Without one, memory or" \
        "processes may be limited too much (ulimit -a, limits of a container)."
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    set -euo pipefail
    # The command reads the sentence and reports it, as all others.
    fail() {
        { printf '%s\n' "$*" >"$WINNOW_RUN_DIR/java-failed"; } 2>/dev/null || say "$*"
        exit 1
    }
    check_system
    find_java
    check_loopback
    check_open_files
    choose_locale
    export SPARK_ENV_LOADED=1 # a spark-env.sh of this machine is for its cluster
    export SPARK_SUBMIT_OPTS="$quiet_java${SPARK_SUBMIT_OPTS:+ $SPARK_SUBMIT_OPTS}"
    compose_java "$@"
    exec "${started[@]}"
fi
