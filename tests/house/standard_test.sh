# Who compiles a public C++ header for C++17 reads first, and once, what to do; the C headers, and
# what they include, are for any C++.
. "$(dirname -- "$0")/lib.sh"
cd "$root"

# In the place of MPI's own, which need not be among the folders that the compilers search.
echo 'typedef int MPI_Comm;' >"$scratch/mpi.h"
wanted='error: .*hymn needs C++20: compile with -std=c++20'

# compile COMPILER STANDARD HEADER
compile() {
  echo "#include \"hymn/$3\"" | "$1" "-std=$2" -x c++ -fsyntax-only -I include -I "$scratch" -
}

compilers=g++
for clang in clang++-19 clang++; do
  if command -v "$clang" >/dev/null; then
    compilers="$compilers $clang"
    break
  fi
done
for compiler in $compilers; do
  headers=0
  for path in include/hymn/*.h include/hymn/*.hpp; do
    header=${path##*/}
    case "$header" in
      *.h | export.hpp) expect 0 '^$' compile "$compiler" c++11 "$header" ;;
      *)
        headers=$((headers + 1))
        expect 1 "$wanted" compile "$compiler" c++17 "$header"
        errors=$(printf '%s\n' "$output" | grep 'error: ') || true
        printf '%s\n' "$errors" | head -n 1 | grep -q -- "$wanted" ||
          fail "$compiler begins with another error at $header: $output"
        [ "$(printf '%s\n' "$errors" | wc -l)" -le 2 ] ||
          fail "$compiler goes on after the error at $header: $output"
        ;;
    esac
  done
  [ "$headers" -ge 20 ] || fail "only $headers headers found"
done
finish
