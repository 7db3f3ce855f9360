#!/bin/sh
# torch_digits on small pictures, with several numbers of ranks, in all of its modes.
#   torch_digits_test.sh MPIRUN HYMN TORCH_DIGITS RANKS…
. "$(dirname -- "$0")/lib.sh"
mpirun=$1
hymn=$2
program=$3
shift 3

# Of 8 times 8 noisy points two rows, two columns or one corner are bright.
awk 'BEGIN {
  state = 1
  for (i = 0; i < 300; i++) {
    kind = i % 3
    state = (state * 16807) % 2147483647
    place = state % 7
    for (y = 0; y < 8; y++)
      for (x = 0; x < 8; x++) {
        state = (state * 16807) % 2147483647
        bright = kind == 0 ? y == place || y == place + 1 : kind == 1 ? x == place || x == place + 1 : x < 4 && y < 4
        printf "%.3f,", 2 * bright + state / 2147483647
      }
    print "kind " kind
  }
}' >"$work/bars.csv"

equal='^one process, rank by rank: the same weights, bit for bit$'
good='^ 4 0\.[0-9]* (9[0-9]\.|100)'
for ranks in "$@"; do
  for mode in '' --uneven '--hook bf16'; do
    # shellcheck disable=SC2086 # words
    run 0 "$mpirun" -n "$ranks" "$program" "$work/bars.csv" --epochs 4 --batch 8 --rate 0.2 --compare-serial $mode
    shows "^$ranks ranks: all have the same weights, bit for bit$" "$equal" "$good"
  done
  # The first rank, too, which prints.
  last=$((ranks - 1))
  run 137 "$hymn" run --keep-going -n "$ranks" "$program" "$work/bars.csv" --epochs 4 --batch 8 --rate 0.2 \
    --compare-serial --lose-rank 0 --lose-at 13
  shows '^rank 1 after 1[34] steps: .*rank 0 .* is dead: its process was killed by signal 9' \
    "^$last ranks: all have the same weights, bit for bit$" "$equal" "$good"
done
# Open MPI does not always say in its status that it has lost a rank.
run '0 137' "$mpirun" --enable-recovery -n 4 "$program" "$work/bars.csv" --epochs 4 --batch 8 --rate 0.2 \
  --compare-serial --lose-rank 1 --lose-at 5 --hook bf16
shows '^3 ranks: all have the same weights, bit for bit$' "$equal" "$good"

for level in ranks runs size; do
  run 0 "$mpirun" -n 3 "$program" "$work/bars.csv" --epochs 1 --compare-serial --reproducible "$level"
  shows '^3 ranks: all have the same weights' '^one process, rank by rank: '
done

run 1 "$mpirun" -n 2 "$program" "$work/missing.csv"
shows 'torch_digits: .*missing.csv: cannot be read'
printf '1,2,3,a\n4,5,6,b\n7,8,9,a\n1,2,3,a\n4,5,6,b\n7,8,9,a\n' >"$work/narrow.csv"
run 1 "$mpirun" -n 2 "$program" "$work/narrow.csv"
shows '3 features are no square'
