#!/bin/sh
# corpus_stats on folders that are not what one would wish for, with several numbers of ranks.
#   corpus_stats_test.sh MPIRUN CORPUS_STATS
. "$(dirname -- "$0")/lib.sh"
mpirun=$1
corpus_stats=$2

# count RANKS STATUS FOLDER
count() {
  run "$2" "$mpirun" -n "$1" "$corpus_stats" "$3"
}

# Each argument is a line of the output, spaces apart.
lists() {
  for line in "$@"; do
    tr -s ' ' <"$work/out" | sed 's/^ //' | grep -qxF -- "$line" || fail "no line '$line'"
  done
}

equal='checked against a serial count: equal'

texts=$work/texts
mkdir -p "$texts/deep/er"
printf 'One two, two; THREE three\nthree\n' >"$texts/a"
printf 'four FOUR Four four' >"$texts/deep/er/b"
: >"$texts/deep/empty"
ln -s "$texts/a" "$texts/link"
ln -s "$texts/nowhere" "$texts/dangling"
ln -s "$texts" "$texts/deep/cycle"
mkfifo "$texts/pipe"
for ranks in 1 2 3 7; do
  count "$ranks" 0 "$texts"
  lists '3 files, 51 bytes, 2 lines, 10 words' \
    "largest: 32 bytes, $texts/a" "smallest: 0 bytes, $texts/deep/empty" \
    'one 1 ##########' 'two 2 ####################' \
    'three 3 ##############################' 'four 4 ########################################' \
    'letters 40 ########################################' 'line ends 2 ##' \
    'Left out: 3' "$texts/dangling: No such file or directory" \
    "$texts/deep/cycle: a link to a folder" "$texts/pipe: not a regular file" "$equal"
done

# Any bytes; a word across the end of a block of them; and one that is too long for a word.
mkdir "$work/binary" "$work/block" "$work/long"
head -c 300000 "$corpus_stats" >"$work/binary/program"
count 3 0 "$work/binary"
high=$(tr -d '\000-\177' <"$work/binary/program" | wc -c)
grep -q "beyond ASCII *$high " "$work/out" || fail "not $high bytes beyond ASCII"
lists "$equal"
head -c 65533 /dev/zero | tr '\000' ' ' >"$work/block/text"
printf 'across' >>"$work/block/text"
count 2 0 "$work/block"
lists '1 files, 65539 bytes, 0 lines, 1 words' 'across 1 ########################################'
head -c 85 /dev/zero | tr '\000' 'x' >"$work/long/text"
count 2 0 "$work/long"
lists '1 files, 85 bytes, 0 lines, 3 words' '40 or more 2 ########################################'

# A regular file that opens, but whose first byte cannot be read.
mkdir "$work/unreadable"
ln -s /proc/self/mem "$work/unreadable/memory"
count 3 1 "$work/unreadable"
lists 'corpus_stats: none of 1 files can be read'
echo text >"$work/unreadable/text"
count 3 0 "$work/unreadable"
grep -q '/mem: cannot be read$' "$work/out" || fail 'nothing is said of the unreadable file'
lists '1 files, 5 bytes, 1 lines, 1 words' "$equal"

# A file with other contents at each reading: what the ranks have counted is not what rank 0 counts.
mkdir "$work/changing"
ln -s /proc/sys/kernel/random/uuid "$work/changing/uuid"
count 2 1 "$work/changing"
lists 'differs: byte counts' 'corpus_stats: a serial count has other results'

mkdir "$work/none" "$work/only_links"
ln -s nowhere "$work/only_links/link"
for ranks in 1 3; do
  count "$ranks" 1 "$work/none"
  lists "corpus_stats: there is no file to read in $work/none"
  count "$ranks" 1 "$work/only_links"
  lists "corpus_stats: there is no file to read in $work/only_links"
  count "$ranks" 1 "$work/missing"
  lists "corpus_stats: $work/missing is not a folder"
  [ "$(grep -c '^corpus_stats:' "$work/out")" -eq 1 ] || fail 'more than one rank told the error'
done
