// How an all_reduce over several hosts is cut, so that each rank of a host folds a share of it and
// takes that to the other hosts: pure arithmetic, in bytes.
//
// Whole pieces follow each other, no larger than the staging buffers hold, each cut into one block
// for every rank of the host. What does not fill such blocks is the tail: all ranks of a host fold
// it, and the first of them takes it to the other hosts.
#pragma once

#include <algorithm>
#include <cstddef>

namespace hymn {

class HostShares {
 public:
  struct Part {
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };

  /// Of `bytes`, between so many ranks of a host, in staging buffers with slots of so many bytes:
  /// at least block_unit for each rank.
  HostShares(std::size_t bytes, int ranks, std::size_t slot_bytes)
      : ranks_(static_cast<std::size_t>(ranks)),
        in_blocks_(bytes / (block_unit * ranks_) * block_unit * ranks_),
        block_(slot_bytes / (block_unit * ranks_) * block_unit),
        tail_{in_blocks_, bytes - in_blocks_} {}

  std::size_t pieces() const { return (in_blocks_ + piece_bytes() - 1) / piece_bytes(); }
  Part piece(std::size_t index) const {
    const std::size_t offset = index * piece_bytes();
    return {offset, std::min(piece_bytes(), in_blocks_ - offset)};
  }
  /// Of a piece, that of one rank of the host.
  Part block(std::size_t index, int rank) const {
    const Part whole = piece(index);
    const std::size_t bytes = whole.bytes / ranks_;
    return {whole.offset + bytes * static_cast<std::size_t>(rank), bytes};
  }
  /// Less than block_unit for each rank.
  Part tail() const { return tail_; }
  static constexpr int tail_carrier = 0;  ///< of the ranks of each host

  /// Blocks are multiples of it: elements are not cut, and buffers at such addresses stay there.
  static constexpr std::size_t block_unit = 16;

 private:
  std::size_t piece_bytes() const { return block_ * ranks_; }

  std::size_t ranks_;
  std::size_t in_blocks_;
  std::size_t block_;
  Part tail_;
};

}  // namespace hymn
