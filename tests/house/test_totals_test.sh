# scripts/test-totals.awk counts what is inside the programs that ctest ran.
. "$(dirname -- "$0")/lib.sh"

# run STATUS [SKIPPED-MESSAGE]: one program, with its output from stdin.
run() {
  printf '\t<testcase name="name" classname="name" time="0.1" status="%s">\n' "$1"
  if [ $# -gt 1 ]; then printf '\t\t<skipped message="%s"/>\n' "$2"; fi
  printf '\t\t<system-out>'
  cat
  printf '</system-out>\n\t</testcase>\n'
}

{
  printf '<?xml version="1.0" encoding="UTF-8"?>\n<testsuite name="(empty)"\n\ttests="9"\n\t>\n'
  run run <<'END'
[  PASSED  ] 12 tests.
END
  run run <<'END'
a_test.cpp:7: Skipped
needs &lt;3&gt; ranks &amp; a &quot;GPU&quot;
[  SKIPPED ] Groups.Three (0 ms)
[  PASSED  ] 4 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Groups.Three
END
  run fail <<'END'
[  FAILED  ] Groups.Two (0 ms)
[  PASSED  ] 5 tests.
[  FAILED  ] 2 tests, listed below:
END
  # No summary: the program is the test.
  echo 'hello' | run run
  echo 'Segmentation fault' | run fail
  # A summary without failures, but a bad end.
  echo '[  PASSED  ] 1 test.' | run fail
  echo 'skipped: needs 20 GiB' | run notrun SKIP_REGULAR_EXPRESSION_MATCHED
  echo 'Unable to find executable: x' | run notrun 'Unable to find executable'
  echo '</testsuite>'
} >"$scratch/junit.xml"

expect 0 '^23 5 2$' awk -f "$root/scripts/junit.awk" -f "$root/scripts/test-totals.awk" "$scratch/junit.xml"
expect 0 '^1 needs <3> ranks & a "GPU"$' awk -f "$root/scripts/junit.awk" -f "$root/scripts/test-totals.awk" "$scratch/junit.xml"
expect 0 '^1 needs 20 GiB$' awk -f "$root/scripts/junit.awk" -f "$root/scripts/test-totals.awk" "$scratch/junit.xml"
finish
