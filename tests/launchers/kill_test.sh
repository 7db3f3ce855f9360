# Ranks killed at random moments: kill_test.sh ROOT KILLED_JOB KILLS [SEED]. Every survivor must end by
# itself and say why, and nothing may be left. Each kill has a seed; the fourth word repeats one.
#
# Where namespaces can be had, all is done in some of our own: what is found there is of this test.
if [ -z "${KILL_TEST_BOXED:-}" ]; then
  export KILL_TEST_BOXED=1
  set -- sh "$0" "$@"
  box='--mount --pid --net --ipc --fork --kill-child --mount-proc'
  # shellcheck disable=SC2086
  if unshare $box sh -c 'mount -t tmpfs none /dev/shm && ip link set lo up' 2>/dev/null; then
    exec unshare $box sh -c 'mount -t tmpfs -o mode=1777 none /dev/shm; ip link set lo up; "$@"' sh "$@"
  fi
  exec "$@"
fi
. "$(dirname -- "$0")/../house/lib.sh"
job=$2
kills=$3
only=${4:-}
export TMPDIR="$scratch" HYMN_TUNING=off
: >"$scratch/began"

# What MPI leaves in files is not hymn's.
memory_in_use() {
  echo $(($(awk '$1 == "Shmem:" {print $2}' /proc/meminfo) - $(du -sk /dev/shm | cut -f1)))
}

# random SEED INDEX BELOW: the same for the same seed.
random() { awk -v seed="$1" -v skip="$2" -v below="$3" 'BEGIN {
  srand(seed); for (i = 0; i < skip + 2; i++) x = rand(); print int(x * below) }'; }

# Processes that are being taken down are still there for a moment.
nothing_left() {
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    left=$("$root/scripts/check-leftovers" --since "$scratch/began" "$(basename "$job")") && return 0
    sleep 0.2
  done
  return 1
}

# kill_one SEED: one in three is killed while the world and its groups are made. What MPI does there
# has no end when a rank is missing, so that it is left to the launcher to end the survivors.
# Otherwise the launcher leaves them alone, and each must end by itself.
kill_one() {
  ranks=$((2 + $(random "$1" 0 4)))
  victim=$(random "$1" 1 "$ranks")
  delay=$(random "$1" 2 100000)
  time=late recovery=--enable-recovery
  if [ "$(random "$1" 3 3)" -eq 0 ]; then time=early recovery=; fi
  what="seed $1: rank $victim of $ranks killed $time, after $delay us"
  status=0
  output=$(timeout -k 2 20 "$root/scripts/mpirun" $recovery -n "$ranks" \
    "$job" "$1" "$victim" "$delay" $time 2>&1) || status=$?
  [ "$status" -ne 124 ] || fail "$what: the job hangs: $output"
  ! printf '%s\n' "$output" | grep -q 'Failure$' || fail "$what: wrong values: $output"
  if [ $time = late ]; then
    told=$(printf '%s\n' "$output" | grep -cE '^survivor [0-9]+: (timeout|aborted): ') || true
    [ "$told" -eq $((ranks - 1)) ] || fail "$what: $told survivors have told why: $output"
  fi
  nothing_left || fail "$what: left behind: $left"
}

# A rank that is killed takes the memory that only it has held with it.
before=$(memory_in_use)
for i in $(seq 1 "$kills"); do kill_one "${only:-$i}"; done
grown=$(($(memory_in_use) - before))
[ "$grown" -lt 65536 ] || fail "shared memory has grown by $grown KiB"
finish
