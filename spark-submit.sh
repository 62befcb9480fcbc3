#!/usr/bin/env bash
# Winnow's one command. `./spark-submit.sh VERB ...` runs spark-submit with jobs/winnow_job.py and
# the defaults in conf/. `./spark-submit.sh SCRIPT.py ...` runs your own PySpark script, which can
# then `import winnow`.
#
# Needs Python 3.11 to 3.14 (with venv) and Java 17 or newer. Installs everything else at its first
# start; `./spark-submit.sh set-up` does only that. With WINNOW_SET_UP=no, as while a broker is
# stopped, all other verbs refuse at once if something is missing. Spark's own options (--master,
# --conf, --driver-memory, ...) may be anywhere before a `--` and are passed to spark-submit. All
# other arguments are passed to the verb. All arguments after a script are passed to the script.
# WINNOW_DRY=1 prints the command, one argument per line, and does not run it.
#
# If --master is not this machine, the executors get what they need as an archive, which is made if
# it is missing. No archive is sent if --archives names one as URL#winnow, or if
# --conf spark.executorEnv.PYTHONPATH=... says where executors have the library.
set -euo pipefail
umask o-w    # no umask lets others change what is made here, such as files of Delta
ulimit -c 0  # a core file of Java or Python would have keys of records
unset CDPATH # with it, cd may go elsewhere, and prints where

self=${BASH_SOURCE[0]}
if [[ -L $self ]]; then self=$(readlink -f "$self"); fi
root=$(cd -- "$(dirname -- "$self")" && pwd -P)
# shellcheck source=lib/set-up.sh
source "$root/lib/set-up.sh"

# --- Spark's options and Winnow's -----------------------------------------------------------------

spark_options=' --master --deploy-mode --name --conf --properties-file --jars --packages
 --exclude-packages --repositories --py-files --files --archives --driver-memory --driver-cores
 --driver-java-options --driver-library-path --driver-class-path --executor-memory --executor-cores
 --total-executor-cores --num-executors --queue --proxy-user --principal --keytab '
spark_options=${spark_options//$'\n'/ }

spark=()
job=()
verb=
application=$root/jobs/winnow_job.py
without_spark=
master=
deploy_mode=client
archives=
have_library=
driver_memory=
local_dirs=
socket_dir=
properties=$root/conf/spark-defaults.conf
while (($#)); do
    option=${1%%=*}
    if [[ $1 == -- ]]; then
        job+=("$@")
        break
    elif [[ $1 == --* && $spark_options == *" $option "* ]]; then
        if [[ $1 == *=* ]]; then
            value=${1#*=}
        elif (($# > 1)); then
            value=$2
            shift
        else
            say "$1 needs a value"
            exit 2
        fi
        case $option in
            --properties-file) properties=$value ;;
            --master) master=$value ;;
            --deploy-mode) deploy_mode=$value ;;
            --driver-memory) driver_memory=$value ;;
            --archives) archives=$value ;;
            --conf)
                case $value in
                    spark.master=*) master=${value#*=} ;;
                    spark.archives=*) archives=${archives:-${value#*=}} ;;
                    spark.executorEnv.PYTHONPATH=*) have_library=yes ;;
                    spark.driver.memory=*) driver_memory=${value#*=} ;;
                    spark.local.dir=*) local_dirs=${value#*=} ;;
                    spark.python.unix.domain.socket.dir=*) socket_dir=${value#*=} ;;
                    *=*) ;;
                    *)
                        say "--conf takes KEY=VALUE, not $value"
                        exit 2
                        ;;
                esac
                ;;
        esac
        if [[ $option != --properties-file ]]; then spark+=("$option" "$value"); fi
    else
        if [[ -z $verb && $1 == *.py && -f $1 ]]; then
            if ((${#job[@]})); then
                say "only Spark's options may be before a script, not ${job[0]}"
                exit 2
            fi
            verb=script application=$1
            shift
            job=("$@")
            break
        fi
        case $1 in
            --help | --version) without_spark=yes ;;
            -*) ;;
            *) if [[ -z $verb ]]; then verb=$1; fi ;;
        esac
        job+=("$1")
    fi
    shift
done

case $verb in
    plan | clean | prepare | apply | erase | explain | verify | doctor | history | demo | script) ;;
    inspect | recover | package | commit | set-up) without_spark=yes ;;
    *) without_spark=yes ;; # no verb or an unknown verb: the command line reports it at once
esac

if [[ -r $properties ]]; then
    while IFS=$' \t=' read -r key value || [[ -n $key ]]; do
        case $key in
            spark.master) master=${master:-$value} ;;
            spark.archives) archives=${archives:-$value} ;;
            spark.executorEnv.PYTHONPATH) have_library=yes ;;
            spark.driver.memory) driver_memory=${driver_memory:-$value} ;;
            spark.local.dir) local_dirs=${local_dirs:-$value} ;;
            spark.python.unix.domain.socket.dir)
                if [[ $properties != "$root/conf/spark-defaults.conf" ]]; then
                    socket_dir=${socket_dir:-$value}
                fi
                ;;
        esac
    done <"$properties"
fi

# Spark refuses a heap of less than 450 MiB, and some collectors count less than they are given.
enough_memory() { # SIZE, as Java reads it
    local kib
    [[ $1 =~ ^([0-9]{1,12})([kKmMgGtT]?)$ ]] || return
    case ${BASH_REMATCH[2]} in
        '') kib=$((10#${BASH_REMATCH[1]} >> 10)) ;;
        k | K) kib=$((10#${BASH_REMATCH[1]})) ;;
        m | M) kib=$((10#${BASH_REMATCH[1]} << 10)) ;;
        *) kib=$((10#${BASH_REMATCH[1]} << 20)) ;;
    esac
    ((kib >= 512 << 10))
}

if [[ -n $driver_memory ]] && ! enough_memory "$driver_memory"; then
    say "the memory of Spark's driver is $driver_memory, but Spark needs at least 512m, with a" \
        "unit of one letter: leave --driver-memory out, or give more, such as 2g"
    exit 2
fi

# How executors get the library. `here`: from this machine's files. `archive`: it is sent to them.
# `theirs`: they already have it. `elsewhere`: the driver runs on another machine.
library=here
if [[ $deploy_mode != client ]]; then
    library=elsewhere
elif [[ -n $have_library ]]; then
    library=theirs
elif [[ -n $master && $master != local* ]]; then
    library=archive
fi

# --- The command ----------------------------------------------------------------------------------

sent=()
run_dirs=()

# Set new_dir to a new directory in PLACE that only this user can access. Its name contains the id
# of the process that spark-submit becomes. While that process lives, the directory is not a
# leftover.
new_run_dir() { # PLACE
    mkdir -p "$1" && new_dir=$(mktemp -d "$1/winnow-run-$$-XXXXXXXX") && run_dirs+=("$new_dir")
}

make_run_dir() { # PLACE
    new_run_dir "$1" ||
        fail "can't create a directory for Spark's files in $1:" \
            "choose another place with TMPDIR or spark.local.dir."
}

# Print the first place for temporary files with 32 MiB of space. With a full or read-only /tmp, the
# checkout's disk and then memory have to do.
temporary_place() {
    local place free
    for place in "${TMPDIR:-/tmp}" "$cache" /dev/shm; do
        [[ -d $place && -w $place && -x $place ]] || continue
        free=$({ df -Pk "$place" | tail -n 1; } 2>/dev/null) || continue
        read -r _ _ _ free _ <<<"$free"
        if ((free >= 32768)); then
            cd -- "$place" && pwd -P
            return
        fi
    done
    fail "no place for Spark's temporary files: ${TMPDIR:-/tmp}, $cache and /dev/shm are full or" \
        "can't be written. Choose one with 32 MiB: TMPDIR=DIRECTORY $0 ${job[*]:-}"
}

# Make private directories for Spark's files, in the places that the user chose for them.
make_run_dirs() {
    local place places list own=
    place=$(temporary_place)
    if [[ ! $place -ef ${TMPDIR:-/tmp} ]]; then
        say "note: ${TMPDIR:-/tmp} is full or can't be written; temporary files are in $place"
        export TMPDIR=$place
    fi
    make_run_dir "$place"
    export WINNOW_RUN_DIR=$new_dir
    places=${SPARK_LOCAL_DIRS:-$local_dirs}
    if [[ -z $places ]]; then own=$new_dir; fi
    IFS=, read -r -a list <<<"$places"
    for place in ${list[@]+"${list[@]}"}; do
        make_run_dir "$place"
        own+=${own:+,}$new_dir
    done
    export SPARK_LOCAL_DIRS=$own
    if [[ -z $socket_dir && (-z $master || $master == local*) ]]; then
        socket_dir=$WINNOW_RUN_DIR
        # The paths of sockets must be short.
        if ((${#socket_dir} > 60)); then
            if new_run_dir /tmp 2>/dev/null || new_run_dir /dev/shm 2>/dev/null; then
                socket_dir=$new_dir
            else
                spark=(--conf spark.python.unix.domain.socket.enabled=false
                    ${spark[@]+"${spark[@]}"})
            fi
        fi
        spark=(--conf "spark.python.unix.domain.socket.dir=$socket_dir" ${spark[@]+"${spark[@]}"})
    fi
}

# Java replaces bytes of arguments that are not UTF-8. The job reads them from this file instead.
keep_bytes() {
    local LC_ALL=C
    if [[ ${job[*]-} == *[!\ -~]* ]]; then
        printf '%s\0' "${job[@]}" >"$WINNOW_RUN_DIR/arguments" || true
    fi
}

compose_command() {
    local home python_name=python3
    if [[ -n $without_spark ]]; then
        command=("$python_in_venv" "$root/jobs/winnow_job.py" ${job[@]+"${job[@]}"})
        return
    fi
    command=("${SPARK_HOME:-}/bin/spark-submit" --properties-file "$properties"
        --conf spark.python.daemon.module=winnow.worker.daemon)
    if [[ $library != elsewhere ]]; then command+=(--conf spark.executorEnv.PYTHONSAFEPATH=1); fi
    # Every user of this machine can connect to Spark's ports, and would read keys there. For a
    # cluster, Spark needs a secret that only its owner can choose.
    case $master in '' | local | 'local['*) command+=(--conf spark.authenticate=true) ;; esac
    case $library in
        here)
            command+=(--conf "spark.executorEnv.PYTHONPATH=$root/lib")
            ;;
        archive)
            # The archive has the kernels too. Executors use their host's Python, of the same
            # version as here.
            for home in "$venv"/lib/python3.*; do
                if [[ -d $home ]]; then python_name=${home##*/}; fi
            done
            command+=(--conf spark.executorEnv.PYTHONPATH=./winnow/site
                --conf "spark.pyspark.python=$python_name")
            case $archives, in
                *'#winnow,'*) ;;
                # Spark uses only the last --archives.
                *) sent=(--archives "${archives:+$archives,}$package#winnow") ;;
            esac
            ;;
    esac
    if [[ $verb == script && $properties == "$root/conf/spark-defaults.conf" ]]; then
        # The file's Java flags are for the short runs of verbs. A script's queries may be long, so
        # they get the JVM's defaults. They can write Delta tables, and MERGE.
        command+=(--conf spark.driver.defaultJavaOptions=
            --conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension
            --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog)
    fi
    if [[ -n $master && $master != local* && $deploy_mode == client ]]; then
        # Otherwise the driver would use spark.pyspark.python, which is meant for the executors.
        command+=(--conf "spark.pyspark.driver.python=$python_in_venv")
    fi
    command+=(${spark[@]+"${spark[@]}"} ${sent[@]+"${sent[@]}"} "$application"
        ${job[@]+"${job[@]}"})
}

if [[ -n ${WINNOW_DRY:-} ]]; then
    compose_command
    printf '%s\n' "${command[@]}"
    exit 0
fi

choose_locale
if [[ -z $without_spark ]]; then
    check_loopback
    check_open_files
fi
set_up requirements.txt
if [[ -z $without_spark ]]; then
    make_run_dirs
    keep_bytes
fi
compose_command
if [[ -z $without_spark ]]; then
    # These options leave --driver-java-options to the user.
    jvm="$quiet_java -Dlog4j2.configurationFile=\"$root/conf/log4j2.properties\""
    jvm+=" -Djava.io.tmpdir=\"$WINNOW_RUN_DIR\""
    # Spark fails without a home directory, even if it stores nothing there. Java does not ask HOME,
    # but the system, which may not know this user.
    home=~
    if [[ $home != /* || $home == *[\"\\]* || ! -w $home ]]; then home=$WINNOW_RUN_DIR; fi
    jvm+=" -Duser.home=\"$home\""
    if [[ -s $class_archive ]]; then jvm+=" -XX:SharedArchiveFile=\"$class_archive\""; fi
    export SPARK_SUBMIT_OPTS="$jvm${SPARK_SUBMIT_OPTS:+ $SPARK_SUBMIT_OPTS}"
    if ((${#sent[@]})); then make_package; fi
    # Spark plans reads of kafka-log here, with the same name of Python as on the executors.
    if [[ $library == archive ]]; then export PATH=$venv/bin:$PATH; fi
    # Otherwise Spark would use the address that the host's name resolves to, even for itself.
    if [[ -z $master || $master == local* ]]; then
        export SPARK_LOCAL_IP=${SPARK_LOCAL_IP:-127.0.0.1}
        export SPARK_ENV_LOADED=1 # a spark-env.sh of this machine is for its cluster
    fi
    # A script may import modules from its own directory. PYTHONSAFEPATH would prevent that.
    if [[ $verb == script ]]; then
        PYTHONPATH+=:$(cd -- "$(dirname -- "$application")" && pwd -P)
    fi
    # The job starts the process that loads what Spark's workers need (docs/decisions/0026). The
    # history needs no workers, and a script need not.
    unset WINNOW_STANDBY
    if [[ $library == here && $verb != history && $verb != script ]]; then
        export WINNOW_STANDBY=$WINNOW_RUN_DIR/standby
    fi
    # This process waits until the pipe is closed, which happens when Java ends. Then it removes the
    # directories.
    exec 8> >(exec "$python_in_venv" -I -S "$root/lib/winnow/runtime/run_directory.py" \
        "${run_dirs[@]}" >/dev/null 2>&1)
    compose_java "${command[@]:1}"
    command=("${started[@]}")
fi
exec "${command[@]}"
