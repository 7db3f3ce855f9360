# A job that loses ranks and goes on with the others, on two hosts: shrink_test.sh ROOT SHRINK_JOB
# RANK:STEP RANK:STEP. Run on node0 of two hosts, by hosts.sh.
#
# Open MPI's mpirun may not end when ranks were killed on another host: what counts is how the ranks
# end, each of which says so in a file.
. "$(dirname -- "$0")/../house/lib.sh"
job=$2
first=$3
second=$4

timeout -k 2 90 "$root/scripts/mpirun" --enable-recovery --host node0:2,node1:2 -x HYMN_TUNING=off \
  -x HYMN_TIMEOUT=20 sh -c '"$1" 400 1 "$2" "$3" >"$0/out${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" 2>&1
    echo $? >"$0/ended${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"' "$scratch" "$job" "$first" "$second" \
  >"$scratch/log" 2>&1 &
mpirun=$!

tries=0
until [ -s "$scratch/ended0" ] && [ -s "$scratch/ended1" ] && [ -s "$scratch/ended2" ] &&
  [ -s "$scratch/ended3" ]; do
  tries=$((tries + 1))
  [ "$tries" -lt 800 ] || break
  sleep 0.1
done
kill "$mpirun" 2>/dev/null || true

for rank in 0 1 2 3; do
  status=$(cat "$scratch/ended$rank" 2>/dev/null || echo none)
  what="rank $rank: status $status: $(cat "$scratch/out$rank" 2>/dev/null) $(cat "$scratch/log")"
  case "$first $second" in
    *"$rank:"*) [ "$status" = 137 ] || fail "$what" ;;
    *)
      [ "$status" = 0 ] || fail "$what"
      grep -q "^rank $rank: 2 left$" "$scratch/out$rank" || fail "$what"
      ;;
  esac
done
finish
