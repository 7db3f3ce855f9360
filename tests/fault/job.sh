#!/bin/sh
# Runs a job whose ranks fail, and looks for what it leaves: job.sh SECONDS PROGRAM WORD-OF-MPIRUN …
# (words of $LAUNCHER, where that starts the ranks in place of mpirun).
# Prints "hung" at the end if the job had to be ended after so long, then a line "left: …" for each
# thing that is still there. On hosts of hosts.sh it looks on each of HOSTS.
#
# mpirun of Open MPI 4 across hosts, told to let others live when one rank fails, does not notice that
# all of them have ended: it is ended when no process of the program is there any more.
set -u
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
seconds=$1
program=$2
shift 2
began=$(mktemp)
end=$(($(date +%s) + seconds))
timeout -k 5 "$seconds" "${LAUNCHER:-$root/scripts/mpirun}" "$@" &
launcher=$!

has_ranks() {
  find /proc/[0-9]*/exe -lname "*/$program" 2>/dev/null | grep -q .
}

came='' gone=0
while kill -0 "$launcher" 2>/dev/null && [ "$gone" -lt 5 ]; do
  if has_ranks; then came=yes gone=0; elif [ -n "$came" ]; then gone=$((gone + 1)); fi
  sleep 0.2
done
kill "$launcher" 2>/dev/null
wait "$launcher"
[ "$(date +%s)" -lt "$end" ] || echo hung

look() {
  "$root/scripts/check-leftovers" --since "$began" "$program"
  for host in ${HOSTS:-}; do
    [ "$host" = "$(hostname)" ] ||
      "${HOSTS_RSH:?}" "$host" "$root/scripts/check-leftovers --since $began $program"
  done
}

# Processes that are being taken down are still there for a moment.
for _ in $(seq 50); do
  left=$(look | sort -u)
  [ -n "$left" ] || break
  sleep 0.2
done
[ -z "$left" ] || printf '%s\n' "$left" | sed 's/^/left: /'
rm -f "$began"
