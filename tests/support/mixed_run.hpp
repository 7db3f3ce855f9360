// Everything mixed at random, from a seed: groups that overlap, each with algorithms of its own
// forced upon it or with none, and on them collectives and messages of any size, blocking and
// asynchronous, several in flight, waited for in any order, on ranks that are late by chance. All
// ranks derive the same schedule from the seed; what is only theirs they draw for themselves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/known_call.hpp"

namespace hymn::test {

/// Something in flight: a collective or a message.
struct Flight {
  std::string what;
  Work work{};
  std::unique_ptr<KnownCall> call{};
  std::unique_ptr<Buffer> message{};
  int source = 0;
  int tag = 0;

  void check() const;
};

/// One rank's part. What is in flight needs its buffers until it ends: keep a MixedRun that has
/// thrown for as long as the world.
class MixedRun {
 public:
  /// `path`: the only one that groups may take; empty: any, and not the same for all groups.
  MixedRun(World& world, std::uint64_t seed, std::string path = "");

  /// Of all groups, from now on.
  void set_timeout(Timeout timeout);
  /// Starts as many operations and waits for all of them. Failed expectations tell what was wrong.
  void run(int steps);
  /// Destroys the groups, in an order of its own on every rank.
  void end();

 private:
  void make_group(std::uint64_t seed);
  void next(int step);
  std::size_t draw_count();
  void call(ProcessGroup& group, const CallPlan& plan);
  void exchange(ProcessGroup& group, int from, int to, int tag, std::size_t count);
  void finish_or_keep(Flight flight, ProcessGroup& group, const Request& request);
  void finish_one();

  World& world_;
  std::string path_;
  Drawer common_;
  Drawer own_;
  int steps_ = 0;
  std::vector<ProcessGroup> groups_;
  std::vector<Flight> flights_;
};

}  // namespace hymn::test
