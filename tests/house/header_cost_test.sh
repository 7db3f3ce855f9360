# What hymn.hpp costs to compile, by what it brings of the standard library: seconds would depend on
# the machine. docs/testing.md has them.
. "$(dirname -- "$0")/lib.sh"

preprocess() { echo '#include <hymn/hymn.hpp>' | g++ -std=c++20 -x c++ -I "$root/include" "$@" -; }
if ! echo '#include <bits/std_function.h>' | g++ -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; then
  echo 'this standard library has its headers in one piece'
  exit 77
fi
preprocess -M | tr -s ' \\' '\n\n' >"$scratch/brought"
grep -q '/c++/[0-9.]*/string$' "$scratch/brought" || fail 'no header is found'
for header in algorithm chrono complex condition_variable functional future iostream memory mutex \
  numeric ranges regex sstream thread; do
  if grep "/c++/[0-9.]*/$header\$" "$scratch/brought"; then fail "hymn.hpp brings <$header>"; fi
done
lines=$(preprocess -E | wc -l)
[ "$lines" -le 65000 ] || fail "hymn.hpp is $lines lines with all that it includes"
finish
