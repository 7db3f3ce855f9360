# scripts/mpirun gives each kind of launcher the options that it knows, and only root the variables
# for root.
. "$(dirname -- "$0")/lib.sh"

launcher() {
  cat >"$scratch/launcher" <<END
#!/bin/sh
if [ "\$*" = --version ]; then echo '$1'; exit 0; fi
echo "arguments: \$*"
echo "root: \${OMPI_ALLOW_RUN_AS_ROOT:-no}"
echo "leaks: \$LSAN_OPTIONS"
END
  chmod +x "$scratch/launcher"
}
export MPIRUN="$scratch/launcher"
unset OMPI_ALLOW_RUN_AS_ROOT
run() { expect 0 "$1" "$root/scripts/mpirun" -n 2 program 'an argument'; }

launcher 'mpirun.openmpi (OpenRTE) 4.1.4, http://www.open-mpi.org/community/help/'
run '^arguments: --oversubscribe --bind-to none -n 2 program an argument$'
if [ "$(id -u)" -eq 0 ]; then run '^root: 1$'; else run '^root: no$'; fi
run "^leaks: suppressions=$root/tests/lsan.supp"

launcher 'HYDRA build details:'
run '^arguments: -n 2 program an argument$'
run '^root: no$'
# What is Open MPI's is said in Hydra's words, in front of each program and nowhere else.
hydra() {
  want=$1
  shift
  expect 0 "^arguments: $want\$" "$root/scripts/mpirun" "$@"
}
hydra '-n 2 -env A b=c -hosts node0:2,node1:1 -bind-to core program -x B -n 3' \
  -n 2 -x A=b=c -x B --host node0:2,node1:1 --oversubscribe --bind-to core:overload-allowed \
  program -x B -n 3
hydra '-n 1 -env A 1 one : -n 2 -ppn 1 -env B 2 two -x' -n 1 -x A=1 one : -n 2 --map-by node -x B=2 two -x
hydra '-genv LD_PRELOAD library -n 2 program' -genv LD_PRELOAD library --allow-run-as-root -n 2 program
hydra '-disable-auto-cleanup -n 2 sh -c trap "" USR1; exec "$0" "$@" program -n' \
  --enable-recovery -n 2 program -n

rm "$scratch/launcher"
expect 127 'launcher' "$root/scripts/mpirun" -n 2 program
finish
