#!/bin/sh
# Starts the ranks of a job without MPI, on hosts of hosts.sh, and waits for all of them:
#   start_ranks.sh node0:2,node1:2 PROGRAM WORD …
# Each is told by variables where it stands, as torchrun would tell it.
set -eu
places=$(echo "$1" | tr ',' ' ')
shift
token=$(od -An -v -N32 -tx1 /dev/urandom | tr -d ' \n')
ranks=0
for place in $places; do ranks=$((ranks + ${place#*:})); done
common="HYMN_TUNING=off HYMN_BOOTSTRAP=environment HYMN_INTERFACE=eth0 HYMN_TOKEN=$token \
  WORLD_SIZE=$ranks MASTER_ADDR=${places%%:*} MASTER_PORT=29600"

rank=0
for place in $places; do
  local_rank=0
  while [ "$local_rank" -lt "${place#*:}" ]; do
    "${HOSTS_RSH:?}" "${place%:*}" "exec env $common RANK=$rank \
      LOCAL_RANK=$local_rank $*" &
    rank=$((rank + 1))
    local_rank=$((local_rank + 1))
  done
done
wait
