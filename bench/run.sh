#!/bin/sh
# Runs the benchmarks of build/bin and keeps what they print in build/bench/. `make bench` builds them
# first. Figures mean something only on a machine that does nothing else.
set -eu
CDPATH='' cd -- "$(dirname -- "$0")/.."

# A table that somebody has tuned here is not what others have.
export HYMN_TUNING="${HYMN_TUNING:-off}"

results=build/bench
mkdir -p "$results"

# Prints a command, runs it, and keeps both in $results/NAME.txt: keep NAME COMMAND…
keep() {
  name=$1
  shift
  # A pipe into tee would hide a failure of the command.
  status=0
  {
    echo "\$ $*"
    "$@"
  } >"$results/$name.txt" || status=$?
  cat "$results/$name.txt"
  echo
  return "$status"
}

{
  date -u '+%Y-%m-%d %H:%M UTC'
  uname -srm
  sed -n 's/^model name[^:]*: */CPU: /p' /proc/cpuinfo | sort | uniq -c
  echo "1-minute load: $(cut -d ' ' -f 1 /proc/loadavg)"
} >"$results/machine.txt"
cat "$results/machine.txt"
echo

# Two ranks on a core each, if there are two cores; four ranks may have to share.
pinned=""
if [ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ]; then pinned="--bind-to core"; fi

# shellcheck disable=SC2086 # $pinned is no or two words
keep overhead-2-ranks scripts/mpirun -n 2 $pinned build/bin/bench_overhead
# shellcheck disable=SC2086
keep overhead-2-ranks-threads scripts/mpirun -n 2 $pinned build/bin/bench_overhead multiple
keep overhead-4-ranks scripts/mpirun -n 4 build/bin/bench_overhead
# shellcheck disable=SC2086
keep messages-2-ranks scripts/mpirun -n 2 $pinned build/bin/bench_messages
keep crowd-3-ranks scripts/mpirun -n 3 build/bin/bench_oversubscribed
keep prepared-1-rank scripts/mpirun -n 1 build/bin/bench_prepared
# shellcheck disable=SC2086
keep prepared-2-ranks scripts/mpirun -n 2 $pinned build/bin/bench_prepared
# shellcheck disable=SC2086
keep coalesced-2-ranks scripts/mpirun -n 2 $pinned build/bin/bench_coalesced
keep coalesced-4-ranks scripts/mpirun -n 4 build/bin/bench_coalesced
keep join-2-ranks scripts/mpirun -n 2 $pinned build/bin/bench_join
keep join-4-ranks scripts/mpirun -n 4 build/bin/bench_join
# Built where libtorch is: scripts/build release -DHYMN_BENCH=ON bench_training
if [ -x build/bin/bench_training ]; then
  # shellcheck disable=SC2086
  keep training-2-ranks scripts/mpirun -n 2 $pinned build/bin/bench_training --rounds 5 --iterations 3
fi

for collective in all_reduce broadcast all_gather reduce_scatter all_to_all send_recv; do
  # shellcheck disable=SC2086
  keep "$collective-2-ranks" scripts/mpirun -n 2 $pinned build/bin/hymn bench "$collective" \
    --min 4 --max 4M --factor 4 --vs mpi --csv "$results/$collective-2-ranks.csv"
done
keep all_reduce-4-ranks scripts/mpirun -n 4 build/bin/hymn bench all_reduce \
  --min 4 --max 4M --factor 4 --vs mpi --csv "$results/all_reduce-4-ranks.csv"
keep barrier-4-ranks scripts/mpirun -n 4 build/bin/hymn bench barrier --vs mpi
keep all_reduce-bfloat16-2-ranks scripts/mpirun -n 2 build/bin/hymn bench all_reduce \
  --dtype bfloat16 --min 4 --max 4M --factor 4

keep programs bench/programs/run --runs 1

for ranks in 2 4 8; do
  keep "worlds-$ranks-ranks" scripts/mpirun -n "$ranks" build/bin/bench_worlds
done
keep placement build/bin/bench_placement
keep label build/bin/bench_label
keep recorder build/bin/bench_recorder

echo "kept in $results/"
