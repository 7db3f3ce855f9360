#!/bin/sh
# parameter_worker on the licence texts of this machine: all trainers, and some of which one is lost.
#   parameter_worker_test.sh MPIRUN HYMN PARAMETER_WORKER
. "$(dirname -- "$0")/lib.sh"
mpirun=$1
hymn=$2
program=$3

# The licences that every Debian has, in a folder whose contents no other package can change.
mkdir "$work/texts"
cp /usr/share/common-licenses/GPL-[123] /usr/share/common-licenses/LGPL-[23]* "$work/texts"

# has_learnt FACTOR: the loss has fallen to less than this part of what it was.
has_learnt() {
  awk -v factor="$1" '/^loss of/ {good = $8 > 4 && $10 < factor * $8} END {exit !good}' "$work/out" ||
    fail "the loss has not fallen to $1 of what it was"
}
refused='worker0 alone: 34.6 MB of embedding are more than the 24.0 MB'
trained='^worker[01]: [0-9]{4,} of 131072 rows have learnt; [0-9]{5,} rows fetched, [0-9]{5,} gradients taken'

run 0 "$mpirun" -n 6 "$program" "$work/texts" --epochs 2
shows '4 trainers, 2 workers' "$refused" '^ 2 4 [0-9]* ' '^4 of 4 trainers have made' "$trained"
has_learnt 0.65

# A trainer in the midst of a step; and the one that has made the embedding, and prints.
for lost in 2 0; do
  run 137 "$hymn" run --keep-going -n 6 "$program" "$work/texts" --epochs 1 --lose-rank $lost --lose-at 30
  shows "rank $lost .* is dead: its process was killed by signal 9" '^ 1 3 [0-9]* ' \
    "^3 of 4 trainers have made [0-9]* steps to the end; trainer$lost was lost" "$trained"
  has_learnt 0.75
done

# What cannot be.
run 1 "$hymn" run -n 2 "$program" "$work/texts"
shows 'parameter_worker: 2 workers leave no trainer of 2 ranks'
run 1 "$hymn" run -n 3 "$program" "$work/texts" --worker-mb 8
shows 'parameter_worker: 17.3 MB of embedding are more than the 8.0 MB'
[ "$(grep -c '^parameter_worker:' "$work/out")" -eq 1 ] || fail 'more than one rank told the error'
run 1 "$hymn" run -n 3 "$program" "$work/missing"
shows 'parameter_worker: .*/missing is not a folder'
