# Shared memory where the system is narrow: surroundings_test.sh ROOT SURROUNDINGS_JOB CASE. Results must
# be right everywhere, with one rank and with more than there are cores; where shared memory cannot
# be had, `explain` must say why.
. "$(dirname -- "$0")/../house/lib.sh"
job=$2
export HYMN_TUNING=off HYMN_TIMEOUT=60
# Limits are for hymn's memory: MPI's own would be the first to fail. These options keep it to sockets.
export OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo

# What keeps a whole group from shared memory begins with the rank that lacks something.
or_why='used by|none: rank [0-9]+: '

skip() {
  echo "skipped: $1"
  exit 77
}

# expect_right RANKS PATTERN COMMAND …: each rank is started by the command. What rank 0 then tells of shared
# memory must match, where there is more than one rank.
expect_right() {
  ranks=$1
  pattern=$2
  shift 2
  status=0
  output=$("$root/scripts/mpirun" -n "$ranks" "$@" "$job" 2>&1) || status=$?
  [ "$status" -eq 0 ] || fail "$ranks ranks under '$*' ended with $status: $output"
  [ "$ranks" -gt 1 ] || return 0
  printf '%s\n' "$output" | grep -qE -- "^shm: ($pattern)" ||
    fail "$ranks ranks under '$*' tell nothing like '$pattern' of shared memory: $output"
}

# Memory without a name is not bounded by /dev/shm.
small_dev_shm() {
  unshare --mount true 2>/dev/null || skip "no mount namespaces here"
  for ranks in 1 2 7; do
    expect_right $ranks 'used by' unshare --mount sh -c \
      'mount -t tmpfs -o size=64m none /dev/shm && exec "$1"' sh
  done
}

# So few that not all groups have room for shared memory. (The more ranks, the more connections and
# watched processes there are beside it.)
few_descriptors() {
  for ranks in 1 2; do
    expect_right $ranks "$or_why" sh -c 'ulimit -n 40 && exec "$1"' sh
  done
  expect_right 7 "$or_why" sh -c 'ulimit -n 48 && exec "$1"' sh
}

# A limit on files is one on memory without a name, too; and it is enforced by a signal.
small_files() {
  for ranks in 1 2 7; do
    expect_right $ranks "$or_why" sh -c 'ulimit -f 2048 && exec "$1"' sh
    expect_right $ranks 'none: rank [0-9]+: .*size of files' sh -c 'ulimit -f 8 && exec "$1"' sh
  done
}

# Numbers of processes mean nothing to each other's ranks.
own_processes() {
  unshare --pid --fork --mount-proc true 2>/dev/null || skip "no process namespaces here"
  for ranks in 1 2 7; do
    expect_right $ranks "$or_why" unshare --pid --fork --mount-proc --kill-child
  done
}

# A group of processes with a limit, as a container has one.
little_memory() {
  group=/sys/fs/cgroup/hymn-test-$$
  controllers=$(cat /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null) || skip "no cgroups, version 2"
  case "$controllers" in *memory*) ;; *) skip "no limits of memory for cgroups here" ;; esac
  mkdir "$group" 2>/dev/null || skip "cgroups cannot be made here"
  trap 'rmdir "$group"; rm -rf "$scratch"' EXIT
  echo 200M >"$group/memory.max"
  for ranks in 1 2 4; do
    expect_right $ranks "$or_why" sh -c "echo \$\$ >$group/cgroup.procs"' && exec "$1"' sh
  done
}

"$3"
finish
