# docs/seeds.md: each test of hymn's that it names is in the file named, and its figures are those of its tables.
. "$(dirname -- "$0")/lib.sh"
cd "$root"
page=docs/seeds.md

# "FILE TEST STATE HERE" of each row, and what is wrong with the rows themselves.
awk -F ' *[|] *' -v all="$scratch/all" -v figures="$scratch/figures" '
  /^## / { file = substr($0, 4) }
  file == "" && NF == 8 && $2 != "File" && $2 !~ /^-/ { print $2, $3, $4, $5, $6, $7 >figures }
  file == "" || NF != 5 || $2 == "Test there" || $2 ~ /^-/ { next }
  seen[file, $2]++ { print "FAILED: " file ": " $2 " is there twice" }
  $3 !~ /^(same|other name|missing|refused: .+)$/ { print "FAILED: " $2 ": what is \"" $3 "\"?" }
  $3 ~ /^(same|other name)$/ && $4 !~ /^`[^`]+`.*`tests\// { print "FAILED: " $2 " names no test" }
  {
    name = $2
    sub(/.*\./, "", name)
    if ($3 == "same" && $4 !~ "[./]" name) print "FAILED: " $2 ": the test has another name"
    state = $3
    sub(/:.*/, "", state)
    counts[file, state]++
    counts["all", state]++
    total[file]++
    total["all"]++
    rest = $4
    tests = ""
    while (match(rest, /`[^`]+`/)) {
      word = substr(rest, RSTART + 1, RLENGTH - 2)
      rest = substr(rest, RSTART + RLENGTH)
      if (word ~ /^tests\//) {
        split(tests, named, " ")
        for (i in named) print named[i], word >all
        tests = ""
      } else if (word ~ /^([A-Za-z]+\/)?[A-Z][A-Za-z0-9]*\.[A-Za-z0-9_\/]+$/) tests = tests " " word
    }
    if (tests != "") print "FAILED: " $2 ": no file behind" tests
  }
  END {
    for (file in total)
      print file, counts[file, "same"] + 0, counts[file, "other name"] + 0,
            counts[file, "missing"] + 0, counts[file, "refused"] + 0, total[file] >(figures ".counted")
  }' "$page" >"$scratch/wrong"
if [ -s "$scratch/wrong" ]; then
  cat "$scratch/wrong"
  fail "rows of $page"
fi
sort "$scratch/figures" >"$scratch/told"
sort "$scratch/figures.counted" | diff "$scratch/told" - >"$scratch/diff" ||
  fail "figures of $page (<) and its rows (>) differ: $(cat "$scratch/diff")"
grep -q '^all .* 206$' "$scratch/told" || fail "$page does not have all 206 tests"

# One with a parameter is known by that.
while read -r test file; do
  case "$test" in
    */*) told="\"${test##*/}\"" ;;
    *) told="(${test%%.*}, ${test#*.})" ;;
  esac
  grep -qsF "$told" "$file" || fail "$page: there is no $test in $file"
done <"$scratch/all"
[ "$(wc -l <"$scratch/all")" -ge 100 ] || fail "only $(wc -l <"$scratch/all") tests of hymn's found"
finish
