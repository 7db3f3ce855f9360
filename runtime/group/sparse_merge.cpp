#include "runtime/group/sparse_merge.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace hymn::detail {
namespace {

/// A sum of any number of blocks. reduce_all() does the same for ranks, by whose number it divides
/// an average: here it is not that of the blocks.
class BlockFold {
 public:
  BlockFold(const Reducer& reducer, std::size_t block, int ranks)
      : reducer_(reducer),
        block_(block),
        ranks_(ranks),
        accumulator_(block * reducer.accumulator_bytes),
        room_(accumulator_.size()) {}

  /// Not of none.
  void run(std::span<const void* const> blocks, std::byte* row) {
    if (reducer_.exact != nullptr)
      accumulate_exactly(blocks);
    else
      accumulate(blocks);
    if (reducer_.needs_store())
      reducer_.store(row, accumulator_.data(), block_, ranks_);
    else
      std::memcpy(row, accumulator_.data(), accumulator_.size());
  }

 private:
  void load(const void* block, std::byte* to) const {
    if (reducer_.needs_load())
      reducer_.load(to, block, block_, reducer_.factor);
    else
      std::memcpy(to, block, accumulator_.size());
  }

  void accumulate(std::span<const void* const> blocks) {
    load(blocks.front(), accumulator_.data());
    for (const void* block : blocks.subspan(1)) {
      if (reducer_.needs_load()) load(block, room_.data());
      reducer_.combine(accumulator_.data(), reducer_.needs_load() ? room_.data() : block, block_);
    }
    // Folded with itself a number stays, and a NaN becomes the one that stands for all.
    if (blocks.size() > 1 || traits_of(reducer_.kind).family != ReduceFamily::order) return;
    room_ = accumulator_;
    reducer_.combine(accumulator_.data(), room_.data(), block_);
  }

  void accumulate_exactly(std::span<const void* const> blocks) {
    const auto count = static_cast<int>(blocks.size());
    if (!reducer_.needs_load()) {
      reducer_.exact(blocks.data(), count, 0, block_, accumulator_.data());
      return;
    }
    std::vector<std::byte> loaded(blocks.size() * accumulator_.size());
    std::vector<const void*> inputs;
    for (const void* block : blocks) {
      std::byte* const to = loaded.data() + inputs.size() * accumulator_.size();
      load(block, to);
      inputs.push_back(to);
    }
    reducer_.exact(inputs.data(), count, 0, block_, accumulator_.data());
  }

  const Reducer& reducer_;
  std::size_t block_;
  int ranks_;
  std::vector<std::byte> accumulator_;
  std::vector<std::byte> room_;
};

struct Entry {
  std::uint64_t key;
  std::size_t place;
  friend auto operator<=>(const Entry&, const Entry&) = default;
};

std::vector<Entry> sorted(std::span<const std::uint64_t> keys) {
  std::vector<Entry> entries;
  entries.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) entries.push_back({keys[i], i});
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::size_t count_keys(const std::vector<Entry>& entries) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (i == 0 || entries[i].key != entries[i - 1].key) ++count;
  return count;
}

}  // namespace

SparseRows merge(const Reducer& reducer, std::span<const std::uint64_t> keys,
                 const std::byte* values, std::size_t block, int ranks) {
  const std::vector<Entry> entries = sorted(keys);
  const std::size_t block_bytes = block * reducer.element_bytes;
  const std::size_t count = count_keys(entries);
  SparseRows rows;
  rows.keys.reserve(count);
  rows.values.resize(count * block_bytes);
  std::optional<BlockFold> fold;  // it takes the memory of a block
  std::vector<const void*> blocks;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (block != 0) blocks.push_back(values + entries[i].place * block_bytes);
    if (i + 1 < entries.size() && entries[i + 1].key == entries[i].key) continue;
    if (block != 0 && !fold) fold.emplace(reducer, block, ranks);
    if (block != 0) fold->run(blocks, rows.values.data() + rows.keys.size() * block_bytes);
    rows.keys.push_back(entries[i].key);
    blocks.clear();
  }
  return rows;
}

void put_rows(const SparseRows& rows, SparseRows& to, std::size_t block_bytes) {
  if (block_bytes == 0) return;
  auto place = to.keys.begin();
  for (std::size_t i = 0; i < rows.keys.size(); ++i) {
    place = std::lower_bound(place, to.keys.end(), rows.keys[i]);
    std::memcpy(to.values.data() + static_cast<std::size_t>(place - to.keys.begin()) * block_bytes,
                rows.values.data() + i * block_bytes, block_bytes);
  }
}

}  // namespace hymn::detail
