# hymn under Slurm: slurm_test.sh ROOT FOLDER-OF-PROGRAMS PLACEMENT-TEST CASE PLUGIN, under slurm.sh. PLUGIN is
# the one by which the ranks of this MPI find each other, as srun --mpi takes it.
. "$(dirname -- "$0")/../house/lib.sh"
bin=$2
placement_test=$3
plugin=$5
allocate() { salloc --quiet "$@"; }

steps() {
  mkdir "$scratch/texts"
  for i in 1 2 3; do seq 1 "${i}00" >"$scratch/texts/$i"; done
  sum=0
  for n in 1 2 3 4; do
    sum=$((sum + n))
    expect 0 "^rank $((n - 1)) of $n has $sum$" srun --mpi="$plugin" -n "$n" --overcommit "$bin/all_reduce"
    expect 0 'checked against a serial count: equal' \
      srun --mpi="$plugin" -n "$n" --overcommit "$bin/corpus_stats" "$scratch/texts"
    expect 0 '^# wrong values: 0$' srun --mpi="$plugin" -n "$n" --overcommit \
      "$bin/hymn" bench all_reduce --max 16K --factor 64 --iters 15 --check 15
  done
}

jobs() {
  printf '#!/bin/sh\nsrun --mpi=%s "%s"\n' "$plugin" "$bin/all_reduce" >"$scratch/job"
  expect 0 'Submitted batch job' sbatch --wait -n 3 -o "$scratch/out" "$scratch/job"
  expect 0 '^rank 2 of 3 has 6$' cat "$scratch/out"
  # mpirun finds out by itself how many ranks the allocation has room for.
  expect 0 '^rank 2 of 3 has 6$' allocate -n 3 "$root/scripts/mpirun" "$bin/all_reduce"
  printf '#!/bin/sh\n"%s" -n 2 "%s"\n' "$root/scripts/mpirun" "$bin/all_reduce" >"$scratch/job"
  expect 0 'Submitted batch job' sbatch --wait -n 2 -o "$scratch/out" "$scratch/job"
  expect 0 '^rank 1 of 2 has 3$' cat "$scratch/out"
}

placement() {
  host=$(hostname)
  export LAUNCHED_HOSTS="$host"
  for n in 1 2 3; do
    expect 0 "^\[  PASSED  \] " srun --mpi="$plugin" -n "$n" "$placement_test"
    LAUNCHED_HOSTS="$LAUNCHED_HOSTS $host"
  done
  # They must notice that a rank is not where they are told.
  export LAUNCHED_HOSTS="$host elsewhere"
  expect 1 "FAILED" srun --mpi="$plugin" -n 2 "$placement_test" --gtest_filter=Placement.IsToldAsJson
}

# hymn tells what MPI_Init, which ends the process, does not.
plugins() {
  expect 2 'the launcher has started 2 tasks (SLURM_STEP_NUM_TASKS), but without PMIx' \
    srun --mpi=none -n 2 "$bin/hymn" bench all_reduce
  printf '%s\n' "$output" | grep -q 'remedy: start it with srun --mpi=pmix' || fail "no remedy: $output"
  expect 1 'with PMI instead of PMIx.*start it with srun --mpi=pmix' \
    srun --mpi=pmi2 -n 2 "$bin/hymn" bench all_reduce
  for other in none pmi2; do
    expect 4 'launcher.mismatch' srun --mpi=$other -n 2 "$bin/hymn" doctor
  done
}

settings() {
  export HYMN_PATH=mpi_p2p
  expect 0 'mpi_p2p (all_reduce' srun --mpi="$plugin" -n 2 "$bin/hymn" bench all_reduce --max 4
  export HYMN_PATH=nowhere
  expect 2 "nowhere" srun --mpi="$plugin" -n 2 "$bin/hymn" bench all_reduce --max 4
  unset HYMN_PATH
  expect 0 'HYMN_TIMEOUT=7 *environment' env HYMN_TIMEOUT=7 srun --mpi="$plugin" -n 1 "$bin/hymn" info
  expect 0 "\"name\": \"$(hostname)\"" srun --mpi="$plugin" -n 2 "$bin/hymn" topo --json
  # What else the doctor warns of is the machine's business.
  output=$(srun --mpi="$plugin" -n 2 "$bin/hymn" doctor 2>&1) || true
  printf '%s\n' "$output" | tr -s ' \n' '  ' |
    grep -q "doctor: 2 ranks on 1 host .*srun --mpi=$plugin, 2 tasks.* 0 errors" ||
    fail "hymn doctor under srun: $output"
}

"$4"
finish
