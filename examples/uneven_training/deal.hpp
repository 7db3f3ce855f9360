// Who has which samples, and in which order it takes them: known to all ranks, without a message.
#pragma once

#include <cstdint>
#include <hymn/shard.hpp>
#include <span>
#include <vector>

namespace uneven {

class Deal {
 public:
  /// Each rank's part has the size of its share; which samples these are is drawn by the seed.
  Deal(std::size_t samples, std::span<const double> shares, std::size_t batch, std::uint64_t seed);

  int ranks() const { return static_cast<int>(shards_.size()); }
  std::size_t samples() const { return samples_; }
  std::size_t batch() const { return batch_; }
  std::size_t samples_of(int rank) const { return shard(rank).size(); }
  /// In an epoch.
  std::size_t batches_of(int rank) const { return (samples_of(rank) + batch_ - 1) / batch_; }
  std::size_t least_batches() const;
  std::size_t most_batches() const;
  /// The first rank that has most batches.
  int longest_rank() const;

  /// Visits the samples of a batch of a rank; each epoch has another order.
  template <class Visit>
  void for_each(int rank, int epoch, std::size_t batch, Visit&& visit) const {
    const hymn::Shard order = order_of(samples_of(rank), epoch);
    for (std::size_t i = batch * batch_; i < (batch + 1) * batch_ && i < order.size(); ++i)
      visit(shard(rank)[order[i]]);
  }
  /// An order of so many, for this epoch.
  hymn::Shard order_of(std::size_t samples, int epoch) const;

 private:
  const hymn::Shard& shard(int rank) const { return shards_[static_cast<std::size_t>(rank)]; }

  std::size_t samples_;
  std::size_t batch_;
  std::uint64_t seed_;
  std::vector<hymn::Shard> shards_;
};

}  // namespace uneven
