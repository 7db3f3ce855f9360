# Reads a LastTest.log of ctest and prints "passed failed skipped" on one line, then one line
# "COUNT REASON" for each reason of a skip.
#
# What counts are the tests inside the programs: GoogleTest's own summary says how many there were. A
# program without that summary counts as one test. A program that ends badly although its summary
# tells of no failure (a crash at exit, a failing rank other than the one that reports) adds a failure.

/^[0-9]+\/[0-9]+ Testing: / {
  own_passed = own_failed = own_skipped = 0
  has_summary = in_output = 0
}
/^Output:$/ { in_output = 1 }

in_output && /^\[  PASSED  \] [0-9]+ test/ { own_passed = $4; has_summary = 1 }
in_output && /^\[  FAILED  \] [0-9]+ test/ { own_failed = $4; has_summary = 1 }
in_output && /^\[  SKIPPED \] [0-9]+ test/ { own_skipped = $4; has_summary = 1 }
in_output && take_reason { reasons[$0]++; take_reason = 0 }
in_output && /: Skipped$/ { take_reason = 1 }

/^Test (Passed|Failed|Skipped)\.$/ && in_output {
  in_output = 0
  verdict = $2
  if (!has_summary) {
    if (verdict == "Passed.") own_passed = 1
    else if (verdict == "Failed.") own_failed = 1
    else own_skipped = 1
  } else if (verdict == "Failed." && own_failed == 0) {
    own_failed = 1
  }
  passed += own_passed
  failed += own_failed
  skipped += own_skipped
}

END {
  print passed + 0, failed + 0, skipped + 0
  for (reason in reasons) print reasons[reason], reason
}
