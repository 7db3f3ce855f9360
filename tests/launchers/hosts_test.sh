# The `hymn` command across hosts: hosts_test.sh ROOT HYMN_COMMAND, on node0 of two hosts of hosts.sh.
. "$(dirname -- "$0")/../house/lib.sh"
hymn=$2
export HYMN_TUNING=off
three() { "$root/scripts/mpirun" --host node0:2,node1:1 -n 3 -x HYMN_TUNING "$@"; }
# on HOST COMMAND
on() { "$HOSTS_RSH" "$@"; }
# The findings of `hymn doctor`; how it ends, this machine decides, too.
diagnose() { output=$(three "$hymn" doctor 2>&1) || true; }
# told PATTERN
told() { printf '%s\n' "$output" | grep -q -- "$1" || fail "nothing like '$1' in: $output"; }
not_told() { ! printf '%s\n' "$output" | grep -- "$1" || fail "'$1' in: $output"; }

expect 0 '^# wrong values: 0$' three "$hymn" bench all_reduce --max 64K --factor 16 --iters 15
expect 0 '^# wrong values: 0$' three "$hymn" bench send_recv --max 1K --factor 16 --iters 15
expect 0 '"name": "node0"' three "$hymn" topo --json
told '"name": "node1"'

# Beside MPI, connections of hymn's own: where they are named, and where they were measured.
by_tcp=' tcp (all_reduce_pairwise)'
export HYMN_PATH=tcp
expect 0 "$by_tcp" three -x HYMN_PATH "$hymn" bench all_reduce --max 64K --factor 16 --iters 15
unset HYMN_PATH
export HYMN_TUNING="$scratch/table.json"
expect 0 'written to' three "$hymn" tune --quick --min 64 --max 1K --collectives all_reduce
sed -i '/"path":"tcp"/s/,[0-9.e-]*\]/,1e-09]/g' "$HYMN_TUNING"
expect 0 "$by_tcp" three "$hymn" bench all_reduce --min 64 --max 1K --factor 16 --iters 15
export HYMN_TUNING=off

diagnose
told '3 ranks on 2 hosts (node0, node1); \(mpirun of Open MPI\|mpiexec of MPICH\)'
told '^0 errors'
for finding in network environment launcher; do not_told " $finding\\."; done
# The rest is about what Open MPI's mpirun does not hand on, and reads from a file.
case "$output" in *MPICH*) finish; exit ;; esac

# mpirun gives variables to the ranks of its own host only.
export HYMN_PATH=mpi
expect 4 'environment.hymn  (rank 2)' three "$hymn" doctor
unset HYMN_PATH

# An address on both hosts, as of the bridges of containers. What keeps MPI off it stands in a file,
# so the doctor does not know.
unset OMPI_MCA_btl_tcp_if_include
export HOME="$scratch"
mkdir "$HOME/.openmpi"
echo 'btl_tcp_if_include = eth0' >"$HOME/.openmpi/mca-params.conf"
for host in node0 node1; do
  on $host 'ip link add bridge9 type bridge && ip link set bridge9 up &&
    ip address add 172.31.9.1/24 dev bridge9'
done
echo '127.0.1.1 node1' >"$scratch/hosts"
on node1 "mount --bind $scratch/hosts /etc/hosts"
diagnose
told 'network.address-repeated  (hosts node0, node1)'
told 'network.name-loopback  (host node1)'
told 'network.many-interfaces  (host node0)'
finish
