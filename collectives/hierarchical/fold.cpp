#include "collectives/hierarchical/fold.hpp"

#include <algorithm>
#include <cstring>

namespace hymn {
namespace {

constexpr std::size_t block_bytes = 8192;  // stays in the first-level cache

const std::byte* at(const void* data, std::size_t element, std::size_t element_bytes) {
  return static_cast<const std::byte*>(data) + element * element_bytes;
}

}  // namespace

Reducer of_accumulators(Reducer reducer) {
  reducer.load = nullptr;
  reducer.store = nullptr;
  reducer.element_bytes = reducer.accumulator_bytes;
  return reducer;
}

void fold_inputs(const Reducer& reducer, const void* const* inputs, int members, void* accumulators,
                 std::size_t count, const double* factors) {
  if (!reducer.needs_load()) {
    reduce_all(of_accumulators(reducer), inputs, members, accumulators, count);
    return;
  }
  alignas(64) std::byte loaded[block_bytes];
  const std::size_t block = sizeof loaded / reducer.accumulator_bytes;
  const auto load = [&](void* to, int member, std::size_t first, std::size_t length) {
    reducer.load(to, at(inputs[member], first, reducer.element_bytes), length,
                 factors != nullptr ? factors[member] : reducer.factor);
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

void fold_behind(const Reducer& reducer, const void* before, const void* const* inputs, int members,
                 void* output, std::size_t count, const double* factors) {
  if (before == nullptr) {
    reduce_all(reducer, inputs, members, output, count, factors);
    return;
  }
  alignas(64) std::byte sum[block_bytes];
  alignas(64) std::byte loaded[block_bytes];
  const std::size_t block = block_bytes / reducer.accumulator_bytes;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t length = std::min(block, count - first);
    const std::size_t bytes = length * reducer.accumulator_bytes;
    std::memcpy(sum, at(before, first, reducer.accumulator_bytes), bytes);
    for (int member = 0; member < members; ++member) {
      const std::byte* next = at(inputs[member], first, reducer.element_bytes);
      if (reducer.needs_load()) {
        reducer.load(loaded, next, length, factors != nullptr ? factors[member] : reducer.factor);
        next = loaded;
      }
      reducer.combine(sum, next, length);
    }
    std::byte* const out = static_cast<std::byte*>(output) + first * reducer.element_bytes;
    if (reducer.needs_store())
      reducer.store(out, sum, length, 1);
    else
      std::memcpy(out, sum, bytes);
  }
}

}  // namespace hymn
