# For the shell tests of this folder: checks, and a scratch folder that is removed at the end.
# Every test is called with the root of the repository.
# shellcheck shell=sh
set -eu
root=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failures=0

# fail TEXT
fail() {
  echo "FAILED: $1"
  failures=$((failures + 1))
}

# expect STATUS PATTERN COMMAND …: the command must end so, and write something that matches.
expect() {
  want=$1
  pattern=$2
  shift 2
  status=0
  output=$("$@" 2>&1) || status=$?
  if [ "$status" -ne "$want" ]; then fail "$* ended with $status, not $want: $output"; fi
  if ! printf '%s\n' "$output" | grep -q -- "$pattern"; then
    fail "$* wrote nothing like '$pattern' but: $output"
  fi
}

# The last line of every test.
finish() {
  [ "$failures" -eq 0 ]
}
