#!/bin/sh
# A program that a failure ends: its status, and what it has written.
#   fatal_test.sh TEXT COMMAND …     TEXT, unless '', is what the program has printed before
set -u
printed=$1
shift
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$@" >"$out" 2>&1
status=$?
cat "$out"

fail() {
  echo "$1" >&2
  exit 1
}

[ "$status" -eq 1 ] || fail "it ended with status $status, not with 1"
grep -q "hymn_all_reduce: sendbuf has 2 elements and recvbuf 3.*rank [01], group 'default_pg'" "$out" ||
  fail "its failure has no text"
if grep -q 'not reached' "$out"; then fail "it went on"; fi
[ -z "$printed" ] || grep -q "$printed" "$out" || fail "what it had printed is lost"
