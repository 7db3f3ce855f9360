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
  run_on_two_ranks "$folder/mpi_main"
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

# Threads of the library's, and what it does at exit, outlive a dlclose.
stays_loaded() {
  readelf -d "$(find "$prefix" -name 'libhymn.so')" >"$work/dynamic.out"
  grep -q NODELETE "$work/dynamic.out" || {
    cat "$work/dynamic.out"
    exit 1
  }
}

case "$step" in
  install) install_and_move ;;
  cmake_cxx) with_cmake cxx ;;
  cmake_c) with_cmake c ;;
  pkgconfig) with_pkg_config ;;
  nodelete) stays_loaded ;;
  command) "$prefix/bin/hymn" --version ;;
  *)
    echo "package_test.sh: no step $step" >&2
    exit 2
    ;;
esac
