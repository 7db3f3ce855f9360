#!/bin/sh
# Every fault of tests/mutants still fits its source; of one that does not, it is told which.
. "$(dirname -- "$0")/lib.sh"
if ! command -v python3 >/dev/null; then
  echo "no python3"
  exit 77
fi
cd "$root"
scripts/mutants check || fail "faults are to be moved to where their source now is"
[ "$(scripts/mutants list | wc -l)" -ge 60 ] || fail "faults are missing"

mkdir -p "$scratch/scripts" "$scratch/tests/mutants"
cp scripts/mutants "$scratch/scripts"
cp tests/mutants/mutants.py "$scratch/tests/mutants"
cat >"$scratch/tests/mutants/some.toml" <<'END'
[[mutant]]
file = "one.cpp"
from = "a < b"
to = "a <= b"
tests = "none"
fault = "equal is less"
END
echo 'bool less(int a, int b) { return a < b; }' >"$scratch/one.cpp"
expect 0 '' "$scratch/scripts/mutants" check
echo 'bool less(int a, int b) { return b > a; }' >"$scratch/one.cpp"
expect 1 'some.toml: one.cpp holds 0 times .*equal is less' "$scratch/scripts/mutants" check
finish
