# Compilers warn of every call whose Work or Future is dropped, and of none with `(void)` before it.
. "$(dirname -- "$0")/lib.sh"
cd "$root"

cat >"$scratch/dropped.cpp" <<'END'
#include "hymn/hymn.hpp"
#ifdef MEANT
#define DROP (void)
#else
#define DROP
#endif
void drop(hymn::World& world, hymn::ProcessGroup& group, hymn::Work& work, float& value) {
  DROP group.all_reduce_async(hymn::view_of(value));
  DROP group.isend(hymn::view_of(value), 0);
  DROP group.start(hymn::Request::barrier());
  DROP work.get_future();
  DROP work.then([](const auto&) {});
  DROP work.get_future().then([](const auto&) {}).then([] {});
  DROP world.new_group_async({0});
}
END
for compiler in g++ clang++-19; do
  command -v "$compiler" >/dev/null || continue
  options='-std=c++20 -Wall -I include -fsyntax-only -fdiagnostics-color=never'
  # shellcheck disable=SC2086 # a list of words
  expect 0 'warning: ' "$compiler" $options "$scratch/dropped.cpp"
  warnings=$(printf '%s\n' "$output" | grep -c 'dropped.cpp:.* warning: .*nodiscard') || true
  [ "$warnings" -eq 7 ] || fail "$compiler warns of $warnings calls, not of 7: $output"
  # shellcheck disable=SC2086
  expect 0 '^$' "$compiler" $options -DMEANT "$scratch/dropped.cpp"
done
finish
