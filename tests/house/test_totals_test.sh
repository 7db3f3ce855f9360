# scripts/test-totals.awk counts what is inside the programs that ctest ran.
. "$(dirname -- "$0")/lib.sh"

# run NUMBER VERDICT: one entry of the log, with the program's output from stdin.
run() {
  printf '%s/9 Testing: name\n%s/9 Test: name\nOutput:\n----\n' "$1" "$1"
  cat
  printf '<end of output>\nTest time =   0.10 sec\n----\nTest %s.\n\n' "$2"
}

{
  run 1 Passed <<'END'
[  PASSED  ] 12 tests.
END
  run 2 Passed <<'END'
a_test.cpp:7: Skipped
needs 3 ranks
[  SKIPPED ] Groups.Three (0 ms)
[  PASSED  ] 4 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Groups.Three
END
  run 3 Failed <<'END'
[  FAILED  ] Groups.Two (0 ms)
[  PASSED  ] 5 tests.
[  FAILED  ] 2 tests, listed below:
END
  # No summary: the program is the test.
  echo 'hello' | run 4 Passed
  echo 'Segmentation fault' | run 5 Failed
  # A summary without failures, but a bad end.
  echo '[  PASSED  ] 1 test.' | run 6 Failed
} >"$scratch/log"

expect 0 '^23 4 1$' awk -f "$root/scripts/test-totals.awk" "$scratch/log"
expect 0 '^1 needs 3 ranks$' awk -f "$root/scripts/test-totals.awk" "$scratch/log"
finish
