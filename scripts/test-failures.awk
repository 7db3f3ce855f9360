# Behind junit.awk: reads what `ctest --output-junit` has written and prints, for each test that failed,
# its name and what its output says of it: the failures that it names, with some lines after each, or
# else its last lines.

function print_lines(first,    i) {
  for (i = first > 1 ? first : 1; i <= lines; i++) print "  " line[i]
}

function print_failures(    i, left) {
  for (i = 1; i <= lines; i++) {
    if (line[i] ~ names_a_failure) left = 8
    if (left-- > 0) print "  " line[i]
  }
}

BEGIN {
  names_a_failure = ": Failure( in .*)?$|: error:|ERROR: |WARNING: ThreadSanitizer|threw: |hangs: |[Ss]ignal|hymn: error"
}

/^[ \t]*<testcase / {
  name = attribute(" name")
  lines = inside = found = 0
  failed = attribute("status") == "fail"
}
/<system-out>/ { inside = 1; sub(/^[ \t]*<system-out>/, "") }
inside && failed {
  line[++lines] = unescape($0)
  sub(/<\/system-out>.*/, "", line[lines])
  if (line[lines] ~ names_a_failure) found = 1
}
/<\/system-out>/ { inside = 0 }
/<\/testcase>/ && failed {
  print name ":"
  if (found) print_failures(); else print_lines(lines - 15)
}
