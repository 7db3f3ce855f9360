// Chunks for whoever comes first, counted in a store.
#include "hymn/chunk_queue.hpp"

#include <algorithm>

namespace hymn {

ChunkQueue::ChunkQueue(std::shared_ptr<Store> store, std::string key, IndexRange range,
                       std::size_t chunk)
    : store_(std::move(store)), key_(std::move(key)), range_(range), chunk_(chunk) {
  const auto refuse = [](const std::string& problem, const char* remedy) {
    throw UsageError(problem, {.operation = "ChunkQueue", .remedy = remedy});
  };
  if (store_ == nullptr) refuse("there is no store", "give the store that all ranks use");
  if (chunk_ == 0) refuse("a chunk has no indices", "give chunks of at least one index");
  if (range_.end < range_.begin) refuse("the range ends before it begins", "give its begin first");
}

std::size_t ChunkQueue::chunks() const {
  return range_.size() / chunk_ + (range_.size() % chunk_ == 0 ? 0 : 1);
}

std::optional<IndexRange> ChunkQueue::next() {
  if (exhausted_) return std::nullopt;
  const auto taken = static_cast<std::size_t>(store_->add(key_, 1)) - 1;
  if (taken >= chunks()) {
    exhausted_ = true;
    return std::nullopt;
  }
  const std::size_t begin = range_.begin + taken * chunk_;
  return IndexRange{begin, begin + std::min(chunk_, range_.end - begin)};
}

}  // namespace hymn
