// All members of a group in one thread, which steps them one by one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "collectives/shm/shm_algorithms.hpp"
#include "p2p/shm/heap_region.hpp"

namespace hymn::test {

using Ints = std::vector<std::int32_t>;

/// A region that has less memory than its plan says.
class ShortRegion final : public SharedRegion {
 public:
  ShortRegion(std::unique_ptr<SharedRegion> whole, std::size_t most)
      : SharedRegion(whole->plan(), whole->members(), whole->me(), whole->common()),
        whole_(std::move(whole)),
        most_(most) {}
  Reserved reserve(int index) override {
    return {std::min(most_, whole_->reserve(index).bytes), "short"};
  }

 private:
  std::unique_ptr<SharedRegion> whole_;
  std::size_t most_;
};

/// All members of a group, each with its own end of the channel.
class Team {
 public:
  /// `memory`: bytes that each member has for an area; or only `short_member`, and the others all.
  explicit Team(int members, bool oversubscribed = false, std::size_t memory = SIZE_MAX,
                int short_member = -1) {
    const ShmAreas areas = ShmAreas::for_members(members, false);
    const auto heap = std::make_shared<HeapMemory>(areas.plan, members);
    std::vector<int> ranks(static_cast<std::size_t>(members));
    std::iota(ranks.begin(), ranks.end(), 0);
    for (int me = 0; me < members; ++me) {
      const bool is_short = short_member < 0 || me == short_member;
      auto region =
          std::make_unique<ShortRegion>(HeapMemory::view(heap, me), is_short ? memory : SIZE_MAX);
      auto channel = std::make_shared<ShmChannel>(
          std::move(region), ranks, oversubscribed, areas.control_block,
          [this](const std::string& text) { warnings.push_back(text); });
      add_shm_algorithms(ends_.emplace_back(), {channel,
                                                std::make_shared<ShmMail>(channel, areas.mail),
                                                areas,
                                                {.rank = me, .size = members}});
    }
  }

  int size() const { return static_cast<int>(ends_.size()); }
  Algorithm& algorithm(int member, std::string_view name) {
    for (const auto& algorithm : ends_[static_cast<std::size_t>(member)])
      for (const OpType type : all_op_types)
        if (algorithm->serves(type) && algorithm->model().name_for(type) == name) return *algorithm;
    throw std::logic_error("no such algorithm");
  }

  std::vector<std::string> warnings;

 private:
  std::vector<Algorithms> ends_;
};

/// One member's part of a call.
class Part {
 public:
  Part(Team& team, int member, std::string_view name, const Request& request, int root = -1)
      : request_(request) {
    Algorithm& algorithm = team.algorithm(member, name);
    EXPECT_TRUE(algorithm.can_run(request_).ok);
    operation_ = &algorithm.prepare(storage_, {.request = &request_, .peer = root});
    operation_->start();
  }
  bool step() { return done_ || (done_ = operation_->step()); }
  bool park(long nanoseconds) { return done_ || (done_ = operation_->park(nanoseconds)); }
  Awaited awaited() const { return operation_->awaited(); }
  void abandon() { operation_->abandon("given up"); }

 private:
  Request request_;
  OperationStorage storage_;
  Operation* operation_;
  bool done_ = false;
};
using Parts = std::vector<std::unique_ptr<Part>>;

/// False when so many rounds of steps did not bring all parts to their end.
inline bool finish(Parts& parts, int rounds = 10000) {
  for (int i = 0; i < rounds; ++i) {
    bool done = true;
    for (auto& part : parts) done &= part->step();
    if (done) return true;
  }
  return false;
}

inline Ints numbers(int member, std::size_t count) {
  Ints values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<std::int32_t>(i % 10007) + member * 100003;
  return values;
}

inline Ints sum_of_all(int members, std::size_t count) {
  Ints sum(count);
  for (int member = 0; member < members; ++member) {
    const Ints values = numbers(member, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

}  // namespace hymn::test
