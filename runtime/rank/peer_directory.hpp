// Who the other ranks of a world are, and what has become of them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/company_watch.hpp"
#include "control/agent.hpp"
#include "runtime/rank/early_sight.hpp"
#include "runtime/rank/group_failure.hpp"

namespace hymn::detail {

class PeerDirectory {
 public:
  /// Where a rank is, and what process.
  struct Person {
    std::string host;
    int pid = 0;
    bool in_sight = false;  ///< as LocalRank says
  };
  /// `early`: what can be seen of the ranks before they have met; null: nothing.
  PeerDirectory(int size, std::shared_ptr<EarlySight> early)
      : size_(size), early_(std::move(early)) {}

  /// The ranks have met: of every one of them.
  void meet(std::vector<Person> persons) { persons_ = std::move(persons); }
  /// News come from now on.
  void open(std::shared_ptr<control::Agent> agent) { agent_ = std::move(agent); }
  /// By which this rank speaks with the others; null: there is no control plane.
  control::Agent* agent() const { return agent_.get(); }
  bool has_control() const { return agent_ != nullptr; }
  /// To the coordinator, where there is one.
  void post(const control::Message& message) const {
    if (agent_) agent_->post(message);
  }
  /// Tells all others that the group is given up.
  void announce_abort(std::uint64_t uid, const GroupFailure& failure) const {
    post(control::AbortGroup{uid, failure.reason, failure.missing});
  }

  std::vector<int> all_ranks() const;
  /// Once they have met.
  const Person& person(int rank) const { return persons_.at(static_cast<std::size_t>(rank)); }
  /// "rank 3 (nodeB, pid 4711)"
  std::string name_of(int rank) const;
  /// How a rank has ended: "rank 1 (vm, pid 7) is dead: its process was killed by signal 9".
  std::string describe_end(const PeerNews& news) const;
  /// Whose failure it was, of those that `told` does not name; empty: its own, or not known.
  std::string tell_culprits(const PeerNews& news, std::string_view told) const;
  /// As Company::tell_of.
  std::string tell_of(int rank) const;
  /// Those that this text names and from which nothing comes any more, or who is to blame for it.
  std::vector<int> gone_ranks_in(std::string_view text) const;
  /// Who is to blame that these have not come.
  std::vector<int> culprits_for(const std::vector<int>& missing) const;
  /// Whether nothing more is to be expected of a rank.
  bool is_hopeless(int rank) const;
  /// Its process has ended without a goodbye.
  bool is_dead(int rank) const;
  /// As Company::has_left.
  bool has_left(int rank) const;
  /// Its process can be seen from here, and has ended.
  bool is_over(int rank) const;
  Company company(std::vector<int> ranks) const;

 private:
  int size_;
  std::vector<Person> persons_;
  std::shared_ptr<EarlySight> early_;  ///< until persons_ are known
  std::shared_ptr<control::Agent> agent_;
};

}  // namespace hymn::detail
