// Inputs for whoever comes first: work sharing by a counter that all ranks have in common.
#pragma once

#include "hymn/standard.hpp"  // first

#include <optional>
#include <string>

#include "hymn/shard.hpp"
#include "hymn/standard_parts.hpp"
#include "hymn/store.hpp"

namespace hymn {

/// Cuts a range into chunks, each of which goes to one of the ranks that ask for it, in order. Who
/// is fast asks more often: no rank has to know beforehand what it can do. All inputs must be
/// within reach of every rank, and each chunk costs a call of the store (docs/shards.md).
///
/// For one thread; every rank, or thread, makes its own over the same store. Who fails with a chunk
/// in its hands takes it with it: chunks are not handed out again.
class HYMN_API ChunkQueue {
 public:
  /// The same on all ranks. `key` names the counter in the store: one that is not in use, for
  /// example of this epoch. Nothing is sent. Throws UsageError without a store, for chunks of no
  /// indices, and for a range that ends before it begins.
  ChunkQueue(std::shared_ptr<Store> store, std::string key, IndexRange range, std::size_t chunk);

  /// The next chunk, of `chunk` indices (the last one may have fewer), or nothing when all are
  /// taken. Chunks come in ascending order. Throws what the store throws.
  std::optional<IndexRange> next();

  /// How many chunks there are in all.
  std::size_t chunks() const;

 private:
  std::shared_ptr<Store> store_;
  std::string key_;
  IndexRange range_;
  std::size_t chunk_;
  bool exhausted_ = false;  // nothing is asked of the store any more
};

}  // namespace hymn
