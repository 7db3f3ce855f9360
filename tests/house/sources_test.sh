# Every script is valid for a plain POSIX shell, can be run, and says what it is for; every header
# says so, too, and can be included twice.
. "$(dirname -- "$0")/lib.sh"
cd "$root"

shell=sh
if command -v dash >/dev/null; then shell=dash; fi
scripts=0
for script in scripts/* .ci/run bench/*.sh tests/*/*.sh; do
  case "$script" in *.awk) continue ;; esac
  scripts=$((scripts + 1))
  "$shell" -n "$script" || fail "$script is not valid for $shell"
  case "$script" in
    tests/*) ;;
    *)
      [ "$(head -n 1 "$script")" = '#!/bin/sh' ] || fail "$script does not begin with #!/bin/sh"
      [ -x "$script" ] || fail "$script cannot be run"
      sed -n 2p "$script" | grep -q '^# ' || fail "$script does not say what it is for"
      ;;
  esac
done
[ "$scripts" -ge 15 ] || fail "only $scripts scripts found"

for header in $(scripts/sources '*.hpp' '*.h'); do
  head -n 1 "$header" | grep -qE '^(// |/\*)' || fail "$header does not say what it is for"
  # Highway includes an -inl.hpp once for each instruction set, with a guard of its own.
  case "$header" in
    *-inl.hpp) ;;
    *) grep -qE '^#(pragma once$|ifndef )' "$header" || fail "$header can be included twice" ;;
  esac
done
# Else it is not installed, though all is well in the tree.
for header in include/hymn/*; do
  grep -qxE " *(.* FILES )?${header#include/}\)?" include/CMakeLists.txt || fail "$header is not named in include/CMakeLists.txt"
done
finish
