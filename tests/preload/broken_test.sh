#!/bin/sh
# A broken MPI program hangs, and hymn tells why: a program that nobody has changed, with
# libhymn-preload.so before MPI's library.
#   broken_test.sh ROOT HYMN PRELOAD PROGRAM RANKS live|dumps|timeout|error SENTENCE
# live: hymn trace --live of the launcher while the job hangs; dumps: of what HYMN_TIMEOUT leaves; timeout:
# what it says itself; error: hymn carries the calls, and MPI's error says it. SENTENCE is a pattern of grep -E.
set -eu
root=$1 hymn=$2 preload=$3 program=$4 ranks=$5 how=$6 sentence=$7
folder=$(mktemp -d)
job=
end() {
  # The launcher ends its ranks.
  if [ -n "$job" ]; then
    kill "$job" 2>/dev/null || true
    wait "$job" 2>/dev/null || true
  fi
  rm -rf "$folder"
}
trap end EXIT

case $how in
  live) set -- -x HYMN_PRELOAD=watch ;;
  dumps) set -- -x HYMN_TIMEOUT=1 -x HYMN_DUMP="$folder/dump" --enable-recovery ;;
  timeout) set -- -x HYMN_TIMEOUT=1 ;;
  error) set -- -x HYMN_PRELOAD=always ;;
esac
"$root/scripts/mpirun" -n "$ranks" -x LD_PRELOAD="$preload" "$@" "$program" >"$folder/out" 2>&1 &
job=$!

looked=0
while [ "$looked" -lt 150 ]; do
  sleep 0.2
  looked=$((looked + 1))
  case $how in
    live) "$hymn" trace --live "$job" >"$folder/verdict" 2>&1 || true ;;
    dumps) "$hymn" trace "$folder/dump" >"$folder/verdict" 2>&1 || true ;;
    timeout | error) cp "$folder/out" "$folder/verdict" ;;
  esac
  if grep -Eq -- "$sentence" "$folder/verdict"; then exit 0; fi
done
echo "the verdict does not say: $sentence"
cat "$folder/verdict" "$folder/out"
exit 1
