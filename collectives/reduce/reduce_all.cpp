// reduce_all: all inputs at once. In one pass where the inputs are their own accumulators, else
// block by block, so that what is between load and store stays in the first-level cache.
#include <algorithm>
#include <cstring>
#include <memory>

#include "collectives/reduce/kernel_table.hpp"

namespace hymn {

namespace {

constexpr std::size_t block_bytes = 8192;
// Where blocks of all ranks are needed at once: the least number of elements in each.
constexpr std::size_t least_block = 64;

/// One reduction in progress: the arguments of reduce_all, and room for two blocks of accumulators.
class BlockwiseReduction {
 public:
  BlockwiseReduction(const Reducer& reducer, const void* const* inputs, int ranks, void* output,
                     const double* factors, ResultPlaces places)
      : reducer_(reducer),
        inputs_(inputs),
        factors_(factors),
        ranks_(ranks),
        output_(static_cast<std::byte*>(output)),
        places_(places),
        accumulates_in_output_(can_accumulate_in_output()) {}

  void run(std::size_t count) {
    std::size_t block = block_bytes / reducer_.accumulator_bytes;
    if (reducer_.exact != nullptr && reducer_.needs_load()) {
      const std::size_t share = block / static_cast<std::size_t>(ranks_);
      block = std::min(std::max(share, least_block), count);
      make_rooms(block * reducer_.accumulator_bytes);
    }
    for (std::size_t first = 0; first < count; first += block)
      reduce_block(first, std::min(block, count - first));
  }

 private:
  /// The output may be an input that is still needed after its first write.
  bool can_accumulate_in_output() const {
    if (reducer_.needs_store() || places_.stream) return false;
    return std::find(inputs_ + 1, inputs_ + ranks_, output_) == inputs_ + ranks_;
  }

  void reduce_block(std::size_t first, std::size_t count) {
    std::byte* const out = output_ + first * reducer_.element_bytes;
    std::byte* const accumulator = accumulates_in_output_ ? out : accumulator_;
    accumulate(accumulator, first, count);
    // A result that is streamed is first made in a room: that of `other_` is free by now.
    std::byte* const result = places_.stream ? other_ : out;
    if (reducer_.needs_store())
      reducer_.store(result, accumulator, count, ranks_);
    else if (accumulator != result)
      std::memcpy(result, accumulator, count * reducer_.element_bytes);
    const std::size_t bytes = count * reducer_.element_bytes;
    if (places_.stream) stream_bytes(out, result, bytes);
    if (places_.copy != nullptr)
      std::memcpy(static_cast<std::byte*>(places_.copy) + first * reducer_.element_bytes, result,
                  bytes);
  }

  /// An exact sum wants all inputs at once, also where they must be loaded.
  void make_rooms(std::size_t bytes_of_each) {
    const auto ranks = static_cast<std::size_t>(ranks_);
    std::byte* rooms = other_;
    loaded_ = few_loaded_;
    if (ranks * bytes_of_each > block_bytes || ranks > std::size(few_loaded_)) {
      more_rooms_ = std::make_unique_for_overwrite<std::byte[]>(ranks * bytes_of_each);
      more_loaded_ = std::make_unique_for_overwrite<void*[]>(ranks);
      rooms = more_rooms_.get();
      loaded_ = more_loaded_.get();
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) loaded_[rank] = rooms + rank * bytes_of_each;
  }

  void accumulate_exactly(std::byte* accumulator, std::size_t first, std::size_t count) {
    if (!reducer_.needs_load()) {
      reducer_.exact(inputs_, ranks_, first, count, accumulator);
      return;
    }
    for (int rank = 0; rank < ranks_; ++rank)
      load(static_cast<std::byte*>(loaded_[rank]), rank, first, count);
    reducer_.exact(loaded_, ranks_, 0, count, accumulator);
  }

  void accumulate(std::byte* accumulator, std::size_t first, std::size_t count) {
    if (reducer_.exact != nullptr) {
      accumulate_exactly(accumulator, first, count);
      return;
    }
    if (reducer_.fold != nullptr) {
      reducer_.fold(inputs_, ranks_, first, count, accumulator, {});
      return;
    }
    load(accumulator, 0, first, count);
    for (int rank = 1; rank < ranks_; ++rank)
      reducer_.combine(accumulator, form(other_, rank, first, count), count);
    if (ranks_ == 1 && detail::is_order(reducer_.kind)) {
      // Folding it with itself gives the same number, or the one NaN that stands for all.
      std::memcpy(other_, accumulator, count * reducer_.accumulator_bytes);
      reducer_.combine(accumulator, other_, count);
    }
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
  const ResultPlaces places_;
  const bool accumulates_in_output_;
  // Where each rank's loaded block is, if all are needed at once: for few ranks in `other_`.
  void** loaded_ = nullptr;
  void* few_loaded_[32];
  std::unique_ptr<void*[]> more_loaded_;
  std::unique_ptr<std::byte[]> more_rooms_;
  alignas(64) std::byte accumulator_[block_bytes];
  alignas(64) std::byte other_[block_bytes];
};

/// Apart, so that the stack of its blocks is not set up for reductions that need none.
[[gnu::noinline]] void reduce_blockwise(const Reducer& reducer, const void* const* inputs,
                                        int ranks, void* output, std::size_t count,
                                        const double* factors, ResultPlaces places) {
  BlockwiseReduction(reducer, inputs, ranks, output, factors, places).run(count);
}

/// By a function of the program's, whose values may be larger than any block.
[[gnu::noinline]] void reduce_custom(const Reducer& reducer, const void* const* inputs, int ranks,
                                     void* output, std::size_t count, void* copy) {
  const std::size_t each = reducer.element_bytes;
  const std::size_t block = std::max<std::size_t>(block_bytes / each, 1);
  alignas(64) std::byte few[block_bytes];
  std::unique_ptr<std::byte[]> large;
  if (each > block_bytes) large = std::make_unique_for_overwrite<std::byte[]>(each);
  std::byte* const room = large ? large.get() : few;
  const auto at = [each](auto* base, std::size_t first) { return base + first * each; };
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t length = std::min(block, count - first);
    const auto input = [&](int rank) {
      return at(static_cast<const std::byte*>(inputs[rank]), first);
    };
    // The output may be any of the inputs.
    std::memcpy(room, input(0), length * each);
    for (int rank = 1; rank < ranks; ++rank) reducer.combine(room, input(rank), length);
    std::memcpy(at(static_cast<std::byte*>(output), first), room, length * each);
    if (copy != nullptr) std::memcpy(at(static_cast<std::byte*>(copy), first), room, length * each);
  }
}

}  // namespace

void reduce_all(const Reducer& reducer, const void* const* inputs, int ranks, void* output,
                std::size_t count, const double* factors, ResultPlaces places) {
  // The sum of two is exact but for the one rounding, as it is.
  const bool needs_care = reducer.store != nullptr || (reducer.exact != nullptr && ranks > 2);
  if (reducer.fold != nullptr && !needs_care) {
    if (ranks == 1 && detail::is_order(reducer.kind)) {
      // Folding it with itself gives the same number, or the one NaN that stands for all.
      const void* const twice[] = {inputs[0], inputs[0]};
      reducer.fold(twice, 2, 0, count, output, places);
    } else {
      reducer.fold(inputs, ranks, 0, count, output, places);
    }
  } else if (is_custom(reducer.kind)) {
    reduce_custom(reducer, inputs, ranks, output, count, places.copy);
  } else {
    reduce_blockwise(reducer, inputs, ranks, output, count, factors, places);
  }
  if (places.stream) finish_streaming();
}

}  // namespace hymn
