// reduce_all: all inputs at once, block by block, so that what is between load and store stays in
// the first-level cache.
#include <algorithm>
#include <cstring>

#include "collectives/reduce/reducer.hpp"

namespace hymn {

namespace {

constexpr std::size_t block_bytes = 8192;

/// One reduction in progress: the arguments of reduce_all, and room for two blocks of accumulators.
class BlockwiseReduction {
 public:
  BlockwiseReduction(const Reducer& reducer, const void* const* inputs, int ranks, void* output,
                     const double* factors)
      : reducer_(reducer),
        inputs_(inputs),
        factors_(factors),
        ranks_(ranks),
        output_(static_cast<std::byte*>(output)),
        accumulates_in_output_(can_accumulate_in_output()) {}

  void run(std::size_t count) {
    const std::size_t block = block_bytes / reducer_.accumulator_bytes;
    for (std::size_t first = 0; first < count; first += block)
      reduce_block(first, std::min(block, count - first));
  }

 private:
  /// The output may be an input that is still needed after its first write.
  bool can_accumulate_in_output() const {
    if (reducer_.needs_store()) return false;
    return std::find(inputs_ + 1, inputs_ + ranks_, output_) == inputs_ + ranks_;
  }

  void reduce_block(std::size_t first, std::size_t count) {
    std::byte* const out = output_ + first * reducer_.element_bytes;
    std::byte* const accumulator = accumulates_in_output_ ? out : accumulator_;
    load(accumulator, 0, first, count);
    for (int rank = 1; rank < ranks_; ++rank)
      reducer_.combine(accumulator, form(other_, rank, first, count), count);
    if (ranks_ == 1 && (reducer_.kind == ReduceKind::min || reducer_.kind == ReduceKind::max)) {
      // Folding it with itself gives the same number, or the one NaN that stands for all.
      std::memcpy(other_, accumulator, count * reducer_.accumulator_bytes);
      reducer_.combine(accumulator, other_, count);
    }
    if (reducer_.needs_store())
      reducer_.store(out, accumulator, count, ranks_);
    else if (accumulator != out)
      std::memcpy(out, accumulator, count * reducer_.element_bytes);
  }

  const std::byte* input(int rank, std::size_t first) const {
    return static_cast<const std::byte*>(inputs_[rank]) + first * reducer_.element_bytes;
  }

  void load(std::byte* to, int rank, std::size_t first, std::size_t count) const {
    const std::byte* const from = input(rank, first);
    if (reducer_.needs_load())
      reducer_.load(to, from, count, factors_ != nullptr ? factors_[rank] : reducer_.factor);
    else if (to != from)
      std::memcpy(to, from, count * reducer_.element_bytes);
  }

  /// A block of a rank's input in accumulator form: itself, or loaded into `room`.
  const std::byte* form(std::byte* room, int rank, std::size_t first, std::size_t count) const {
    if (!reducer_.needs_load()) return input(rank, first);
    load(room, rank, first, count);
    return room;
  }

  const Reducer& reducer_;
  const void* const* const inputs_;
  const double* const factors_;
  const int ranks_;
  std::byte* const output_;
  const bool accumulates_in_output_;
  alignas(64) std::byte accumulator_[block_bytes];
  alignas(64) std::byte other_[block_bytes];
};

}  // namespace

void reduce_all(const Reducer& reducer, const void* const* inputs, int ranks, void* output,
                std::size_t count, const double* factors) {
  BlockwiseReduction(reducer, inputs, ranks, output, factors).run(count);
}

}  // namespace hymn
