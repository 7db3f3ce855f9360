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

# with_pkg_config COMPILER FLAGS SOURCE MODULE
with_pkg_config() {
  PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name hymn.pc)")
  export PKG_CONFIG_PATH
  libraries=$(pkg-config --variable=libdir hymn)
  # shellcheck disable=SC2046,SC2086 # lists of words
  $1 $2 "$root/tests/package/$3" $(pkg-config --cflags --libs "$4") -o "$work/$step-$4"
  run_on_two_ranks "$work/$step-$4"
}

case "$step" in
  install) install_and_move ;;
  cmake_cxx) with_cmake cxx ;;
  cmake_c) with_cmake c ;;
  pkgconfig_cxx)
    with_pkg_config c++ -std=c++20 cxx/main.cpp hymn
    with_pkg_config c++ -std=c++20 cxx/mpi_main.cpp hymn-mpi
    ;;
  pkgconfig_c)
    with_pkg_config cc -std=c11 c/main.c hymn
    with_pkg_config cc -std=c11 c/mpi_main.c hymn-mpi
    ;;
  command) "$prefix/bin/hymn" --version ;;
  *)
    echo "package_test.sh: no step $step" >&2
    exit 2
    ;;
esac
