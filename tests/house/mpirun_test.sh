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

rm "$scratch/launcher"
expect 127 'launcher' "$root/scripts/mpirun" -n 2 program
finish
