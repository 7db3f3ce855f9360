# scripts/test-failures.awk tells what failed of what ctest ran.
. "$(dirname -- "$0")/lib.sh"

# run NAME STATUS: one program, with its output from stdin.
run() {
  printf '\t<testcase name="%s" classname="name" time="0.1" status="%s">\n' "$1" "$2"
  printf '\t\t<system-out>'
  cat
  printf '</system-out>\n\t</testcase>\n'
}

{
  run good run <<'END'
x_test.cpp:7: Failure
END
  run other_rank fail <<'END'
[       OK ] Some.Other
x_test.cpp:7: Failure in Some.Test
Expected: 1 &lt; 2
END
  run silent fail <<'END'
what it says last
END
} >"$scratch/tests.xml"
awk -f "$root/scripts/junit.awk" -f "$root/scripts/test-failures.awk" "$scratch/tests.xml" >"$scratch/said"
grep -q good "$scratch/said" && fail "a test that passed is told: $(cat "$scratch/said")"
for line in 'other_rank:' '  x_test.cpp:7: Failure in Some.Test' '  Expected: 1 < 2' 'silent:' '  what it says last'; do
  grep -qxF "$line" "$scratch/said" || fail "'$line' is missing: $(cat "$scratch/said")"
done
grep -qF 'Some.Other' "$scratch/said" && fail "what is before the failure is told: $(cat "$scratch/said")"
finish
