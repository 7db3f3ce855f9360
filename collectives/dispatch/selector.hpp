// Which algorithm carries out a request, and why not another.
#pragma once

#include <array>
#include <atomic>
#include <optional>
#include <set>
#include <string>

#include "base/paths.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/dispatch/algo_policy.hpp"
#include "collectives/planner/planner.hpp"
#include "hymn/process_group.hpp"

namespace hymn {

/// What the user allows.
struct SelectionRules {
  PathPolicy path;
  AlgoPolicy algo;
  Reproducibility reproducibility = Reproducibility::ranks;  ///< the least that will do
};

/// The candidates of one group, in order of preference. Thread-safe.
class Selector {
 public:
  /// Rules and context are the same on all members of the group, so that the choice is. Throws
  /// ConfigError when the rules name an algorithm that neither these candidates nor other groups of
  /// this build can have.
  Selector(Algorithms algorithms, SelectionRules rules, PlanContext context);

  /// Of the candidates that are allowed and can run the request the one that is predicted to be
  /// the fastest, or the first where no times are known; remembered for requests alike. Throws
  /// UnsupportedError that tells why each candidate refused. For one rank alone, which needs no
  /// path, the path setting counts for nothing where it leaves nothing.
  Algorithm& pick(const Request& request);
  Explanation explain(const Request& request) const;
  /// Whether the group has members with GPUs: where the buffers of others lie is not known then.
  /// The same on all members.
  bool knows_gpus() const;
  /// Of those that have been given collectives. Any thread may ask.
  std::vector<AlgorithmUse> uses() const;

 private:
  std::uint64_t key(const Request& request) const;
  /// Whether the path setting counts: not at a second look.
  enum class Look : bool { by_path_setting, all_alone };
  std::size_t search(const Request& request) const;
  std::optional<std::size_t> search(const Request& request, Look look) const;
  Explanation explain(const Request& request, Look look) const;
  /// Of algorithms, that a setting may name.
  std::set<std::string> known_names() const;
  bool is_allowed(std::size_t index, OpType type) const;
  bool is_path_allowed(std::size_t index, Look look) const;
  Reproducibility promise(std::size_t index, const Request& request) const;
  std::string shortfall(Reproducibility promised, const Request& request) const;
  Candidate ask(std::size_t index, const Request& request, const std::optional<PlanQuery>& query,
                Look look) const;
  std::string held_back(std::size_t index, const std::optional<PlanQuery>& query) const;
  Cost cost_of(std::size_t index, const std::optional<PlanQuery>& query) const;
  std::vector<std::string> missing(OpType type) const;
  std::string remedy() const;
  [[noreturn]] void refuse(const Request& request) const;

  Algorithms algorithms_;
  SelectionRules rules_;
  PlanContext context_;
  // Of each algorithm: a bit for each OpType for which the algorithm setting allows it.
  std::vector<unsigned> allowed_;
  // Key and answer in one word each, so that an entry is never half written.
  std::array<std::atomic<std::uint64_t>, 64> cache_{};
};

}  // namespace hymn
