# Behind junit.awk: reads what `ctest --output-junit` has written and prints "passed failed skipped" on
# one line, then one line "COUNT REASON" for each reason of a skip.
#
# What counts are the tests inside the programs: GoogleTest's own summary says how many there were. A
# program without that summary counts as one test. A program that ends badly although its summary
# tells of no failure (a crash at exit, a failing rank other than the one that reports) adds a
# failure, and so does one that could not be run.

function end_of_program() {
  if (status == "notrun" && why ~ /^SKIP_|^Disabled/) {
    own_skipped++
    reasons[said == "" ? why : said]++
  } else if (status != "run") {
    if (own_failed == 0) own_failed = 1
  } else if (!has_summary) {
    own_passed = 1
  }
  passed += own_passed
  failed += own_failed
  skipped += own_skipped
}

/^[ \t]*<testcase / {
  status = attribute("status")
  why = said = ""
  own_passed = own_failed = own_skipped = has_summary = take_reason = 0
}
/^[ \t]*<skipped / { why = attribute("message") }
/^[ \t]*<\/testcase>/ { end_of_program() }

{ sub(/^[ \t]*<system-out>/, "") }
/^\[  PASSED  \] [0-9]+ test/ { own_passed = $4; has_summary = 1 }
/^\[  FAILED  \] [0-9]+ test/ { own_failed = $4; has_summary = 1 }
/^\[  SKIPPED \] [0-9]+ test/ { own_skipped = $4; has_summary = 1 }
take_reason { reasons[unescape($0)]++; take_reason = 0 }
/: Skipped$/ { take_reason = 1 }
/^skipped: / { said = unescape(substr($0, length("skipped: ") + 1)) }

END {
  print passed + 0, failed + 0, skipped + 0
  for (reason in reasons) print reasons[reason], reason
}
