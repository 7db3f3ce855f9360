# Proves the package from outside: installs a build, moves the installed tree, and builds projects
# against it that know nothing else of hymn. Called with a step, the root of the repository and the
# build folder; ctest runs the steps in order.
set -eu
step=$1
root=$2
build=$3
work=$build/package-test
prefix=$work/moved

# Both ranks must have got the sum.
run_on_two_ranks() {
  LD_LIBRARY_PATH=${libraries:-} "$root/scripts/mpirun" -n 2 "$@" >"$work/$step.out" 2>&1 || {
    cat "$work/$step.out"
    exit 1
  }
  sort "$work/$step.out" | diff - "$root/tests/package/expected.txt"
}

install_and_move() {
  rm -rf "$work"
  mkdir -p "$work"
  cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
  mv "$work/prefix" "$prefix"
}

with_cmake() {
  folder=$work/$step
  cmake -S "$root/tests/package/$1" -B "$folder" "-DCMAKE_PREFIX_PATH=$prefix"
  cmake --build "$folder"
  run_on_two_ranks "$folder/main"
  if [ -x "$folder/mpi_main" ]; then run_on_two_ranks "$folder/mpi_main"; fi
  for program in training_main functional_main rpc_main; do
    if [ -x "$folder/$program" ]; then run_on_two_ranks "$folder/$program"; fi
  done
  if [ -x "$folder/simulation_main" ]; then
    "$folder/simulation_main" | sort | diff - "$root/tests/package/expected.txt"
  fi
}

# The lines of README that use pkg-config, as they stand there.
with_pkg_config() {
  PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name hymn.pc)")
  export PKG_CONFIG_PATH
  libraries=$(pkg-config --variable=libdir hymn)
  folder=$work/$step
  rm -rf "$folder"
  mkdir -p "$folder"
  cp "$root/tests/package/cxx/main.cpp" "$folder/program.cpp"
  cp "$root/tests/package/cxx/mpi_main.cpp" "$folder/mpi_program.cpp"
  cp "$root/tests/package/c/main.c" "$folder/program.c"
  cp "$root/tests/package/c/mpi_main.c" "$folder/mpi_program.c"
  sed -n '/^With pkg-config:$/,/^```$/s/^\(g++\|cc\) /&/p' "$root/README.md" >"$folder/lines"
  [ "$(wc -l <"$folder/lines")" -eq 4 ] || {
    echo "README has not four lines that use pkg-config:"
    cat "$folder/lines"
    exit 1
  }
  while IFS= read -r line; do
    echo "$line"
    rm -f "$folder/a.out"
    (cd "$folder" && sh -c "$line")
    run_on_two_ranks "$folder/a.out" </dev/null
  done <"$folder/lines"
}

# The line of README for Fortran.
with_pkg_config_fortran() {
  PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name hymn-fortran.pc)")
  export PKG_CONFIG_PATH
  libraries=$(pkg-config --variable=libdir hymn)
  folder=$work/$step
  rm -rf "$folder"
  mkdir -p "$folder/bin"
  cp "$root/tests/package/fortran/main.f90" "$folder/program.f90"
  ln -s "$FC" "$folder/bin/gfortran"
  line=$(sed -n '/^With pkg-config:$/,/^```$/s/^gfortran /&/p' "$root/README.md")
  echo "$line"
  (cd "$folder" && PATH="$folder/bin:$PATH" sh -c "$line")
  run_on_two_ranks "$folder/a.out"
}

# What hymn.f90 and the C functions behind it are called, and nothing else.
fortran_exports_only_its_own() {
  nm -D --defined-only "$(find "$prefix" -name 'libhymn-fortran.so')" | awk '{print $NF}' >"$work/names"
  grep -q '^hymnFortranAllReduce$' "$work/names"
  if grep -Ev '^(hymnFortran[A-Z]|hymn_fortran_|__hymn_MOD_)' "$work/names"; then
    echo "libhymn-fortran.so exports these, which are not hymn's" >&2
    exit 1
  fi
}

# Threads of the library's, and what it does at exit, outlive a dlclose.
stays_loaded() {
  readelf -d "$(find "$prefix" -name 'libhymn.so')" >"$work/dynamic.out"
  grep -q NODELETE "$work/dynamic.out" || {
    cat "$work/dynamic.out"
    exit 1
  }
}

# Nothing else's: another version of the standard library, or of what hymn is made with, may be in the
# same program.
exports_only_its_own() {
  nm -D --defined-only --with-symbol-versions "$(find "$prefix" -name 'libhymn.so')" |
    awk '$2 != "A" {print $NF}' >"$work/names"
  grep 'hymn_private' "$work/names" >"$work/private"
  grep -v 'hymn_private' "$work/names" >"$work/exported"
  echo "$(wc -l <"$work/exported") public names, $(wc -l <"$work/private") private ones"
  grep -q '^hymnAllReduce@@HYMN_0$' "$work/exported"
  grep -q '^_ZTIN4hymn9PeerErrorE@@HYMN_0$' "$work/exported"
  if grep -Ev '^(hymn[A-Z]|_ZNK?4hymn|_ZT[ISV]N4hymn).*@@HYMN_0$' "$work/exported"; then
    echo "libhymn.so exports these, which are not hymn's" >&2
    exit 1
  fi
  if grep -v '@@HYMN_PRIVATE$' "$work/private"; then
    echo "these are the command's alone, but do not have the version HYMN_PRIVATE" >&2
    exit 1
  fi
  # shellcheck disable=SC2046 # a list of words: all libraries beside libhymn.so that were built
  private_names --undefined-only "$prefix/bin/hymn" $(find "$prefix" -name 'libhymn-*.so') >"$work/needed"
  if private_names --defined-only "$(find "$prefix" -name 'libhymn.so')" | comm -23 - "$work/needed" |
    grep .; then
    echo "HYMN_PRIVATE marks these, which neither the command nor any other library of hymn needs" >&2
    exit 1
  fi
  # Of the public headers none declares what only the command may use.
  if grep -rn 'HYMN_PRIVATE\|base/private' "$prefix/include"; then
    exit 1
  fi
}

# As a program would write them: constructors have several names else.
private_names() {
  nm -DC --with-symbol-versions "$@" |
    sed -n 's/^[0-9a-f ]* [A-Z] \(hymn::.*hymn_private[^@]*\)@.*/\1/p' | sort -u
}

# `make install` compiles the library and the command, and no test, benchmark or example.
builds_no_more_than_it_installs() {
  make -n -C "$root" install >"$work/make.out"
  grep -q '^scripts/build release hymn_installed$' "$work/make.out"
  ninja -C "$build" -t commands hymn_installed >"$work/commands.out"
  grep -q 'tools/main.cpp\|hymn_command' "$work/commands.out"
  if grep -E -o ' -o (tests|bench|examples)/[^ ]*' "$work/commands.out"; then
    echo "make install builds these, which it does not install" >&2
    exit 1
  fi
}

# What writes and draws pictures is loaded when one is asked for, from where it is installed.
command_starts_and_draws() {
  "$prefix/bin/hymn" --version
  ldd "$prefix/bin/hymn" >"$work/ldd.out"
  if grep 'rsvg\|cairo\|glib\|pictures' "$work/ldd.out"; then
    echo "hymn needs these to start" >&2
    exit 1
  fi
  "$prefix/bin/hymn" topo --svg "$work/topo.svg" >/dev/null
  grep -q '<svg' "$work/topo.svg"
  "$prefix/bin/hymn" topo --png "$work/topo.png" >/dev/null
  head -c 4 "$work/topo.png" | grep -q PNG
}

# In bytes: what is compiled for GPUs is compressed, what seldom works is compiled to be small, and the
# command has no second copy of what the library has.
stays_small() {
  is_at_most 6000000 "$(find "$prefix" -name 'libhymn.so')"
  is_at_most 3000000 "$prefix/bin/hymn"
}

is_at_most() {
  size=$(stat -L -c %s "$2")
  echo "$2: $size bytes"
  [ "$size" -le "$1" ]
}

case "$step" in
  install) install_and_move ;;
  cmake_cxx) with_cmake cxx ;;
  cmake_c) with_cmake c ;;
  cmake_fortran) with_cmake fortran ;;
  pkgconfig) with_pkg_config ;;
  pkgconfig_fortran) with_pkg_config_fortran ;;
  fortran_symbols) fortran_exports_only_its_own ;;
  nodelete) stays_loaded ;;
  size) stays_small ;;
  symbols) exports_only_its_own ;;
  builds) builds_no_more_than_it_installs ;;
  command) command_starts_and_draws ;;
  *)
    echo "package_test.sh: no step $step" >&2
    exit 2
    ;;
esac
