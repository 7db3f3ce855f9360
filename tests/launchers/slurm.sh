#!/bin/sh
# Slurm on one machine, for tests of srun, sbatch and salloc: its daemons listen on the loopback
# interface only, with a key of their own, and everything that they write is in one folder.
#   slurm.sh run COMMAND …    starts it, runs the command, stops it
#   slurm.sh start FOLDER     starts one that stays; FOLDER is a new one
#   slurm.sh stop FOLDER      ends its jobs and its daemons; removes FOLDER
# After `start`, SLURM_CONF=FOLDER/slurm.conf in the environment leads srun and the others to it.
# SLURM_CPUS is how many processors the node is said to have (8); it need not have as many.
# Ends with 77 and a line "skipped: …" where Slurm cannot run.
set -eu
self=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/$(basename -- "$0")
PATH="$PATH:/usr/sbin:/sbin"
box='--mount --uts --ipc --pid --fork --kill-child'
node=$(hostname -s)
user=$(id -un)

usage() {
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$self" >&2
  exit 2
}

need_slurm() {
  for tool in munged slurmctld slurmd srun sbatch salloc; do
    command -v $tool >/dev/null && continue
    echo "skipped: no Slurm here: no command $tool (packages slurm-wlm, munge)"
    exit 77
  done
}

# The ports are chosen by chance, below those that the kernel gives out by itself. Where they are
# taken, the daemons do not start, and others are tried.
write_configuration() {
  port=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 5000 * 2))
  cat >"$1/slurm.conf" <<END_OF_CONF
ClusterName=one
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$1/munge.socket
CredType=cred/munge
MailProg=/bin/true
StateSaveLocation=$1/state
SlurmdSpoolDir=$1/spool
TmpFS=$1/tmp
SlurmctldPidFile=$1/slurmctld.pid
SlurmdPidFile=$1/slurmd.pid
SlurmctldLogFile=$1/slurmctld.log
SlurmdLogFile=$1/slurmd.log
# The default, cgroup, needs what containers seldom have.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1
KillWait=2
NodeName=$node NodeAddr=127.0.0.1 CPUs=${SLURM_CPUS:-8} State=UNKNOWN
PartitionName=main Nodes=$node Default=YES MaxTime=10 State=UP
END_OF_CONF
}

# poll COMMAND …: until it succeeds, for 30 s.
poll() {
  deadline=$(($(date +%s) + 30))
  until "$@" >/dev/null 2>&1; do
    [ "$(date +%s)" -lt "$deadline" ] || return 1
    sleep 0.05
  done
}

node_is_idle() { [ "$(timeout 5 sinfo --noheader --format=%t)" = idle ]; }
no_jobs() { [ -z "$(timeout 5 squeue --noheader)" ]; }
has_ended() { ! kill -0 "$1"; }

start() {
  mkdir -m 700 "$1/state" "$1/spool" "$1/tmp"
  head -c 128 /dev/urandom >"$1/munge.key"
  chmod 400 "$1/munge.key"
  # --force: munged does not care to run as root, nor below /tmp.
  munged --force --socket="$1/munge.socket" --key-file="$1/munge.key" --seed-file="$1/munge.seed" \
    --pid-file="$1/munged.pid" --log-file="$1/munged.log" 2>>"$1/munged.log" || return 1
  export SLURM_CONF="$1/slurm.conf"
  for _ in 1 2 3; do
    write_configuration "$1"
    if slurmctld && poll timeout 2 scontrol ping && slurmd -N "$node" && poll node_is_idle; then
      return 0
    fi
    stop_daemons "$1" slurmd slurmctld
  done
  return 1
}

# stop_daemons FOLDER NAME …
stop_daemons() {
  files=$1
  shift
  for daemon; do
    [ -s "$files/$daemon.pid" ] || continue
    pid=$(cat "$files/$daemon.pid")
    kill "$pid" 2>/dev/null || continue
    poll has_ended "$pid" || kill -KILL "$pid"
  done
}

stop() {
  export SLURM_CONF="$1/slurm.conf"
  if timeout 5 scancel --user="$user" 2>/dev/null; then poll no_jobs || true; fi
  stop_daemons "$1" slurmd slurmctld munged
}

start_or_skip() {
  start "$1" >"$1/log" 2>&1 && return 0
  stop "$1"
  echo "skipped: Slurm does not start here: $(tail -qn 1 "$1"/*log | tr '\n' ' ')"
  rm -rf -- "$1"
  exit 77
}

case "${1:-}" in
  start)
    [ $# -eq 2 ] || usage
    need_slurm
    mkdir -m 700 -- "$2"
    start_or_skip "$(CDPATH='' cd -- "$2" && pwd)"
    ;;
  stop)
    [ $# -eq 2 ] || usage
    [ -e "$2/slurm.conf" ] || {
      echo "slurm.sh: there is no Slurm in $2" >&2
      exit 2
    }
    stop "$(CDPATH='' cd -- "$2" && pwd)"
    rm -r -- "$2"
    ;;
  run)
    [ $# -ge 2 ] || usage
    need_slurm
    shift
    # Where namespaces can be had, nothing outlives their first process, whatever becomes of it.
    # shellcheck disable=SC2086
    if unshare $box true 2>/dev/null; then exec unshare $box "$self" run-boxed "$@"; fi
    exec "$self" run-here "$@"
    ;;

  # For this script's own use.
  run-boxed)
    mount -t proc none /proc
    mount -t tmpfs none /run
    mount -t tmpfs -o mode=1777 none /dev/shm # where jobs that are killed leave files
    getent hosts "$(hostname)" >/dev/null || hostname localhost # slurmctld looks its name up
    shift
    TMPDIR=/run "$self" run-here "$@"
    ;;
  run-here)
    shift
    folder=$(mktemp -d)
    trap 'stop "$folder"; rm -rf -- "$folder"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    start_or_skip "$folder"
    export TMPDIR="$folder/tmp"
    "$@"
    ;;
  *) usage ;;
esac
