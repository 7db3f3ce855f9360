#!/bin/sh
# Several hosts on one machine, for mpirun: each has its own name, network, System V IPC and /dev/shm.
# They meet on a bridge; files, processors and process numbers are those of the machine.
#   hosts.sh run N COMMAND …          N hosts node0, node1, …; the command on node0; then no hosts
#   hosts.sh up FOLDER N              hosts that stay; FOLDER, a new one, keeps what finds them again
#   hosts.sh exec FOLDER HOST COMMAND …   the command on one of them
#   hosts.sh cut FOLDER HOST          nothing comes from it or goes to it any more, until
#   hosts.sh heal FOLDER HOST
#   hosts.sh signal FOLDER HOST NAME  to all that runs on it: KILL, say
#   hosts.sh down FOLDER              ends the hosts and all that runs on them
# On a host, mpirun starts ranks on the others:
#   scripts/mpirun --host node0:2,node1:1 build/bin/hymn bench all_reduce
# Ends with 77 and a line "skipped: …" where the system does not let us have the namespaces.
#
# All is done inside namespaces that only live as long as their first process (`unshare
# --kill-child`): the kernel tears down whatever way that ends, and two runs cannot meet.
set -eu
self=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/$(basename -- "$0")
folder=/run/hosts # inside, where /run is our own
address=10.251.77 # so is the network
box='--mount --net --pid --fork --kill-child'
enter='--mount --net --pid'
if [ "$(id -u)" -ne 0 ]; then
  box="--user --map-root-user $box"
  enter="--user --preserve-credentials $enter"
fi

usage() {
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "$self" >&2
  exit 2
}

# The options of `unshare` are words.
# shellcheck disable=SC2086
need_namespaces() {
  why=
  for tool in ip unshare nsenter; do
    command -v $tool >/dev/null || why="no command $tool (packages iproute2, util-linux)"
  done
  if [ -z "$why" ]; then
    why=$(unshare $box --uts --ipc sh -c 'mount -t tmpfs none /run && mount -t proc none /proc &&
      hostname probe && ip link add probe0 type bridge && ip link add probe1 type veth' 2>&1) &&
      return 0
  fi
  echo "skipped: no fake hosts here: $(printf '%s' "$why" | tr '\n' ' ')"
  exit 77
}

# What follows runs inside.

# The process that a host is: it makes itself at home, says so, and waits. As a shell it also reaps
# what daemons leave to it.
host() {
  hostname "$1"
  mount -t tmpfs -o mode=1777 none /dev/shm
  mount --bind "$folder/hosts" /etc/hosts
  ip link set lo up
  : >"$folder/$1.ready"
  while sleep 1000; do :; done
}

wait_for() {
  tries=0
  until [ -e "$1" ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 600 ]; then
      echo "hosts.sh: $1 has not come up within 30 s" >&2
      exit 1
    fi
    sleep 0.05
  done
}

make_hosts() {
  mount -t proc none /proc
  mount -t tmpfs -o mode=755 none /run
  mkdir -m 700 "$folder" "$folder/tmp"
  ip link set lo up
  ip link add switch type bridge
  ip link set switch up
  printf '#!/bin/sh\nexec "%s" rsh "$@"\n' "$self" >"$folder/rsh"
  chmod +x "$folder/rsh"
  last=$(($1 - 1))
  {
    echo '127.0.0.1 localhost'
    for i in $(seq 0 "$last"); do echo "$address.$((i + 1)) node$i"; done
  } >"$folder/hosts"
  for i in $(seq 0 "$last"); do
    # unshare becomes the host's shell without a fork: $! is its number.
    unshare --mount --net --uts --ipc "$self" host "node$i" </dev/null &
    echo $! >"$folder/node$i.pid"
    wait_for "$folder/node$i.ready"
    ip link add "port$i" type veth peer name eth0 netns $!
    ip link set "port$i" master switch up
    on "node$i" ip address add "$address.$((i + 1))/24" dev eth0
    on "node$i" ip link set eth0 up
  done
}

# on HOST COMMAND …
on() {
  pid=$(cat "$folder/$1.pid" 2>/dev/null) || {
    echo "hosts.sh: there is no host $1" >&2
    exit 2
  }
  shift
  nsenter --target "$pid" --mount --net --uts --ipc --wd="$PWD" "$@"
}

# As `on`, with what lets mpirun find its way; Open MPI, and MPICH's Hydra, take their options from such
# variables. HOSTS_RSH is for scripts.
exec_on() {
  export TMPDIR="$folder/tmp"
  export HOSTS_RSH="$folder/rsh"
  export HYDRA_LAUNCHER=rsh HYDRA_LAUNCHER_EXEC="$folder/rsh" HYDRA_IFACE=eth0
  export OMPI_MCA_plm_rsh_agent="$folder/rsh"
  export OMPI_MCA_oob_tcp_if_include=eth0 OMPI_MCA_btl_tcp_if_include=eth0
  on "$@"
}

# To what has the host's network; but for the host itself, and what it sleeps in.
send_signal() {
  host=$(cat "$folder/$1.pid")
  network=$(readlink "/proc/$host/ns/net")
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/ns/net")" = "$network" ] || continue
    read -r pid _ _ parent _ <"$process/stat" || continue
    if [ "$pid" != "$host" ] && [ "$parent" != "$host" ]; then
      kill -s "$2" "$pid" 2>/dev/null || [ ! -e "$process" ]
    fi
  done
}

# And from outside.

# The first process inside, once all hosts are there.
top() {
  if [ ! -e "$1/ready" ]; then
    echo "hosts.sh: there are no hosts in $1" >&2
    exit 2
  fi
  cat "$1/top"
}

# shellcheck disable=SC2086
case "${1:-}" in
  run)
    [ $# -ge 3 ] || usage
    need_namespaces
    shift
    exec unshare $box "$self" inside-run "$@"
    ;;
  up)
    [ $# -eq 3 ] || usage
    need_namespaces
    mkdir -- "$2"
    place=$(CDPATH='' cd -- "$2" && pwd)
    setsid unshare $box "$self" inside-stay "$place" "$3" </dev/null >"$place/log" 2>&1 &
    echo $! >"$place/unshare"
    wait_for "$place/ready"
    ;;
  exec)
    [ $# -ge 4 ] || usage
    pid=$(top "$2")
    shift 2
    exec nsenter --target "$pid" $enter --wd="$PWD" "$self" inside-exec "$@"
    ;;
  cut | heal)
    [ $# -eq 3 ] || usage
    pid=$(top "$2")
    exec nsenter --target "$pid" $enter "$self" inside-"$1" "$3"
    ;;
  signal)
    [ $# -eq 4 ] || usage
    pid=$(top "$2")
    exec nsenter --target "$pid" $enter "$self" inside-signal "$3" "$4"
    ;;
  down)
    [ $# -eq 2 ] || usage
    top "$2" >/dev/null
    kill -KILL "$(cat "$2/unshare")"
    rm -r -- "$2"
    ;;

  # For this script's own use.
  inside-run)
    make_hosts "$2"
    shift 2
    exec_on node0 "$@"
    ;;
  inside-stay)
    read -r pid rest </proc/self/stat # /proc still tells the number that is valid outside
    echo "$pid" >"$2/top"
    make_hosts "$3"
    : >"$2/ready"
    while sleep 1000; do :; done
    ;;
  inside-exec)
    shift
    exec_on "$@"
    ;;
  inside-cut) ip link set "port${2#node}" down ;;
  inside-heal) ip link set "port${2#node}" up ;;
  inside-signal) send_signal "$2" "$3" ;;
  host) host "$2" ;;
  rsh) # as rsh: all words after the host are one command for a shell, and no variable goes along
    target=$2
    shift 2
    exec_on "$target" env -i HOME="$HOME" PATH="$PATH" TMPDIR="$folder/tmp" sh -c "$*"
    ;;
  *) usage ;;
esac
