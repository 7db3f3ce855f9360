# For the shell tests of this folder: checks, and a scratch folder ($work) that is removed at the end.
# shellcheck shell=sh
set -eu
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "$(basename "$0" .sh): $1" >&2
  cat "$work/out" >&2
  exit 1
}

# run 'STATUS …' COMMAND…: ends with one of these; the output is in $work/out.
run() {
  expected=$1
  shift
  status=0
  timeout -k 2 120 "$@" >"$work/out" 2>&1 || status=$?
  case " $expected " in
    *" $status "*) ;;
    *) fail "$*: status $status, not $expected" ;;
  esac
}

# Each argument is a regular expression that matches a line of the output, runs of spaces as one.
shows() {
  for line in "$@"; do
    tr -s ' ' <"$work/out" | grep -qE -- "$line" || fail "no line '$line'"
  done
}
