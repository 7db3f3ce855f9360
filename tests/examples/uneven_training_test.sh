#!/bin/sh
# uneven_training on small tables, with several numbers of ranks.
#   uneven_training_test.sh MPIRUN UNEVEN_TRAINING RANKS…
. "$(dirname -- "$0")/lib.sh"
mpirun=$1
program=$2
shift 2

# train RANKS STATUS [ARGUMENT…]
train() {
  ranks=$1
  status=$2
  shift 2
  run "$status" "$mpirun" -n "$ranks" "$program" "$@"
}

# Three clouds of points around three corners, and a line of names above them.
awk 'BEGIN {
  print "x,y,z,corner"
  state = 1
  for (i = 0; i < 230; i++) {
    corner = i % 3
    for (axis = 0; axis < 3; axis++) {
      state = (state * 16807) % 2147483647
      printf "%.3f,", (axis == corner ? 2 : 0) + state / 2147483647
    }
    print "corner " corner
  }
}' >"$work/corners.csv"

equal='weights are those of the serial training, bit for bit'
for ranks in "$@"; do
  train "$ranks" 0 "$work/corners.csv" --epochs 5 --batch 8 --rate 0.1 --ways drop,join,joinables,steal \
    --plot "$work/curves-$ranks.svg"
  shows '184 samples for training, 46 for the test; 3 features, 3 classes' "$equal" \
    '^ join 184 of 184 ' '^ joinables 184 of 184 ' '^ steal 184 of 184 ' "curves-$ranks.svg$"
  if [ "$ranks" -gt 1 ]; then shows '^ drop ([1-9]|[1-9][0-9]|1[0-7][0-9]) of 184 '; fi
  [ "$(grep -c '<polyline' "$work/curves-$ranks.svg")" -eq 10 ] || fail 'not ten curves'
  tail -n 1 "$work/curves-$ranks.svg" | grep -qx '</svg>' || fail 'the picture is cut off'
done

# Ranks without a single sample; batches larger than a part; every level of reproducibility.
train 3 0 "$work/corners.csv" --epochs 2 --shares 0,1,0 --batch 500
shows ' 0 0 0$' ' 1 184 1$' "$equal"
for level in ranks runs size; do
  train 3 0 "$work/corners.csv" --epochs 2 --ways join --reproducible "$level"
  shows 'checked: all ranks have the same model'
done

# What hymn says without a join, and that nothing hangs where nothing is uneven. The limit holds for the
# calls before it, too, whose ranks may be kept from their cores for seconds.
train 3 0 "$work/corners.csv" --epochs 1 --batch 4 --shares 5,3,1 --without-join 10
shows 'Without join, all_reduce limited to 10 s, hymn says:' \
  "all_reduce #6 of group 'without join.*missing: rank 2 " "$equal"
train 2 0 "$work/corners.csv" --epochs 1 --batch 4 --shares 1,1 --without-join 10
shows 'nothing: all ranks have as many batches'

train 2 1 "$work/missing.csv"
shows "missing.csv: cannot be read"
printf '1,2,a\n3,4,b\n5,b\n' >"$work/ragged.csv"
train 2 1 "$work/ragged.csv"
shows 'ragged.csv, line 3: not 2 numbers and a class'
printf '1,2,a\n3,x,b\n' >"$work/words.csv"
train 1 1 "$work/words.csv"
shows 'words.csv, line 2: not 2 numbers and a class'
printf '1,2,a\n3,4,a\n' >"$work/one.csv"
train 1 1 "$work/one.csv"
shows 'one.csv: the last column has 1 different classes'
train 2 1 "$work/corners.csv" --shares 1,2,3
shows '3 weights for 2 ranks'
train 1 1 "$work/corners.csv" --epochs 1 --plot "$work/no/such/folder.svg"
shows 'folder.svg cannot be written'
