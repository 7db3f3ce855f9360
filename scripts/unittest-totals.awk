# From what Python's unittest says with -v: "PASSED FAILED SKIPPED", then so many skipped for each reason.
/^Ran [0-9]+ tests? in / { ran = $2 }
/\.\.\. skipped / {
  reason = $0
  sub(/.*\.\.\. skipped ['"]/, "", reason)
  sub(/['"]$/, "", reason)
  skipped[reason]++
  skips++
}
/^(FAIL|ERROR): / { failed++ }
END {
  print ran - failed - skips, failed + 0, skips + 0
  for (reason in skipped) print skipped[reason], reason
}
