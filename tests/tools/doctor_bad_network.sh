#!/bin/sh
# For a fake host of tests/launchers/hosts.sh: gives it two more interfaces and takes its own name for
# the loopback, and then runs the command.
set -eu
ip link add more0 type veth peer name more1
ip address add 10.99.1.1/24 dev more0
ip address add 10.99.2.1/24 dev more1
ip link set more0 up
ip link set more1 up
sed "s/.* $(hostname)\$/127.0.1.1 $(hostname)/" /etc/hosts >"$TMPDIR/other-hosts"
mount --bind "$TMPDIR/other-hosts" /etc/hosts
unset OMPI_MCA_btl_tcp_if_include
exec "$@"
