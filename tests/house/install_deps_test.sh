# scripts/install-deps, with doubles of dpkg-query and apt-get: it asks apt for exactly what is
# missing, for nothing when nothing is, fetches package lists only where needed, tries once more after
# a failure, and tells who cannot install.
. "$(dirname -- "$0")/lib.sh"

double() {
  cat >"$scratch/bin/$1"
  chmod +x "$scratch/bin/$1"
}

mkdir "$scratch/bin"
export scratch
PATH="$scratch/bin:$PATH"
double dpkg-query <<'END'
#!/bin/sh
for package; do :; done
if grep -qx "$package" "$scratch/there"; then echo installed; else exit 1; fi
END
# Fails as often as the file says, counting down; then the packages are there.
double apt-get <<'END'
#!/bin/sh
echo "apt-get $*" >>"$scratch/calls"
if [ "$1" = update ]; then exit 0; fi
left=$(cat "$scratch/failures")
echo $((left - 1)) >"$scratch/failures"
[ "$left" -le 0 ] || exit 1
for word; do echo "$word"; done >>"$scratch/there"
END
double systemctl <<'END'
#!/bin/sh
echo "systemctl $*" >>"$scratch/calls"
END
double apt-cache <<'END'
#!/bin/sh
[ -f "$scratch/lists" ]
END
double id <<'END'
#!/bin/sh
cat "$scratch/uid"
END
double sudo <<'END'
#!/bin/sh
echo "sudo $*" >>"$scratch/calls"
exec "$@"
END
double sleep <<'END'
#!/bin/sh
END

# start UID FAILURES [MISSING …]: everything else is installed.
start() {
  echo "$1" >"$scratch/uid"
  echo "$2" >"$scratch/failures"
  shift 2
  "$root/scripts/install-deps" list | awk '{print $2}' >"$scratch/there"
  for package; do
    grep -vx "$package" "$scratch/there" >"$scratch/rest"
    mv "$scratch/rest" "$scratch/there"
  done
  : >"$scratch/calls"
  : >"$scratch/lists"
}

calls() { grep -c "^$1" "$scratch/calls" || true; }

start 0 0
expect 0 '' "$root/scripts/install-deps" test
[ "$(calls apt-get)" -eq 0 ] || fail 'nothing was missing, yet apt-get was called'

start 0 0 g++ clang-19
expect 0 '^installing: g++$' "$root/scripts/install-deps" run
grep -q -- '--no-install-recommends .* g++$' "$scratch/calls" || fail 'not g++ alone'
[ "$(calls 'apt-get update')" -eq 0 ] || fail 'fetched the lists without need'

# Each word brings its own packages, and those of run.
start 0 0 cmake clang-19 mpich python3
expect 0 '^installing: cmake$' "$root/scripts/install-deps" run
start 0 0 cmake clang-19 mpich python3
expect 0 '^installing: cmake python3 clang-19 mpich$' "$root/scripts/install-deps" test
start 0 0 cmake clang-19 mpich python3
expect 0 '^installing: cmake python3 mpich$' "$root/scripts/install-deps" bench

start 0 1 g++ clang-19
expect 0 'trying once more' "$root/scripts/install-deps" test
[ "$(calls 'apt-get update')" -eq 1 ] || fail 'did not fetch the lists after a failure'
[ "$(calls 'apt-get install')" -eq 2 ] || fail 'did not try again'

start 0 0 cmake
rm "$scratch/lists"
expect 0 'installing: cmake' "$root/scripts/install-deps" run
[ "$(calls 'apt-get update')" -eq 1 ] || fail 'did not fetch the lists on a fresh machine'
[ "$(calls 'apt-get install')" -eq 1 ] || fail 'tried before it had the lists'

# Services that come with what is installed do not stay; those that were there are left alone.
start 0 0 munge
expect 0 'installing: munge' "$root/scripts/install-deps" test
[ "$(grep '^systemctl' "$scratch/calls")" = 'systemctl disable --now --quiet munge' ] ||
  fail "did not stop munge alone: $(cat "$scratch/calls")"
start 0 0 slurm-wlm
echo slurmd >>"$scratch/there"
expect 0 'installing: slurm-wlm' "$root/scripts/install-deps" test
[ "$(calls systemctl)" -eq 0 ] || fail 'stopped a service that was there before'

start 0 9 cmake
expect 1 'apt could not install: cmake' "$root/scripts/install-deps" run
[ "$(calls 'apt-get install')" -eq 2 ] || fail 'did not try exactly once more'

start 1000 0 make
expect 0 'installing: make' "$root/scripts/install-deps" run
grep -q '^sudo env DEBIAN_FRONTEND=noninteractive apt-get install' "$scratch/calls" ||
  fail 'did not use sudo'

# Neither root nor sudo: a PATH that holds only what the script needs.
mkdir "$scratch/few"
for tool in sh awk sed cat grep dirname; do ln -s "$(command -v "$tool")" "$scratch/few/"; done
rm "$scratch/bin/sudo"
start 1000 0 make
PATH="$scratch/bin:$scratch/few" expect 1 'apt-get install --no-install-recommends *make' \
  "$root/scripts/install-deps" run
[ "$(calls apt-get)" -eq 0 ] || fail 'called apt-get without being root'

expect 2 'install-deps run' "$root/scripts/install-deps"
finish
