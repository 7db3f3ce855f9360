#include "collectives/hierarchical/fold.hpp"

#include <algorithm>

namespace hymn {
namespace {

/// Folds accumulators, and leaves them as such.
Reducer of_accumulators(Reducer reducer) {
  reducer.load = nullptr;
  reducer.store = nullptr;
  reducer.element_bytes = reducer.accumulator_bytes;
  return reducer;
}

}  // namespace

void fold_inputs(const Reducer& reducer, const void* const* inputs, int members, void* accumulators,
                 std::size_t count, const double* factors) {
  if (!reducer.needs_load()) {
    reduce_all(of_accumulators(reducer), inputs, members, accumulators, count);
    return;
  }
  alignas(64) std::byte loaded[8192];  // stays in the first-level cache
  const std::size_t block = sizeof loaded / reducer.accumulator_bytes;
  const auto load = [&](void* to, int member, std::size_t first, std::size_t length) {
    reducer.load(to, static_cast<const std::byte*>(inputs[member]) + first * reducer.element_bytes,
                 length, factors != nullptr ? factors[member] : reducer.factor);
  };
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t length = std::min(block, count - first);
    std::byte* const to = static_cast<std::byte*>(accumulators) + first * reducer.accumulator_bytes;
    load(to, 0, first, length);
    for (int member = 1; member < members; ++member) {
      load(loaded, member, first, length);
      reducer.combine(to, loaded, length);
    }
  }
}

void fold_accumulators(const Reducer& reducer, const void* const* inputs, int hosts, void* own,
                       void* output, std::size_t count, int ranks) {
  const Reducer plain = of_accumulators(reducer);
  if (!reducer.needs_store()) {
    reduce_all(plain, inputs, hosts, output, count);
    return;
  }
  reduce_all(plain, inputs, hosts, own, count);
  reducer.store(output, own, count, ranks);
}

}  // namespace hymn
