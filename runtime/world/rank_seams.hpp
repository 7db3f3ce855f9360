// Ranks as threads in a simulation: what stands between them and each other.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/private.hpp"
#include "hymn/exchange.hpp"
#include "hymn/world.hpp"

namespace hymn {

/// Shared by all ranks of a run, and called by their threads.
class RankSeams {
 public:
  using SightDeath = std::function<void(int rank, const std::string& how)>;

  RankSeams() = default;
  RankSeams(const RankSeams&) = delete;
  RankSeams& operator=(const RankSeams&) = delete;
  virtual ~RankSeams() = default;

  /// Before any rank begins. By `sight_death` all others see that a rank is gone without a word.
  virtual void begin(SightDeath sight_death) = 0;
  /// The first thing on the thread of that rank.
  virtual void begin_rank(int rank) = 0;
  /// Whether ranks on different hosts may reach each other's memory, as threads can.
  virtual bool let_share_memory() const = 0;
  /// What is to carry the messages of this rank; `plain` delivers at once.
  virtual std::shared_ptr<Exchange> between(int rank, std::shared_ptr<Exchange> plain) = 0;
};

/// As run_ranks, one rank for each of `hosts`, which says on which host, from 0, it seems to be.
/// Each has a core of its own there.
HYMN_PRIVATE void run_simulated_ranks(std::span<const int> hosts,
                                      const std::function<void(World&)>& rank_main,
                                      const WorldOptions& options, RankSeams& seams);

}  // namespace hymn
