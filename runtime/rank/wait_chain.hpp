// Who waits for somebody who waits for somebody: to the ranks at the end, or round in a circle.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "control/peer_news.hpp"
#include "hymn/timeout.hpp"

namespace hymn::detail {

/// Where it leads that a rank waits.
struct WaitChain {
  struct Link {
    int rank = -1;
    std::vector<int> missing{};
    bool any = false;    ///< any one of these would do
    bool tests = false;  ///< it may do something else at any time
  };
  std::vector<Link> links{};  ///< each leads to the next; none: the rank does not wait
  std::vector<ProgressReport>
      ends{};                 ///< who keeps the last link, and does not wait, or cannot be asked
  std::vector<int> circle{};  ///< who waits for each other
  bool is_told = false;       ///< it leads into one that was followed before

  /// No wait of the way ends before somebody sees to those at its end: they are stopped or gone.
  bool is_certain() const;
};

/// Who waits, all at one time, and for whom.
class WaitGraph {
 public:
  /// It waits for all of these or, where `any`, for one of them.
  void add(int rank, std::vector<int> lacks, bool any) { nodes_[rank] = {std::move(lacks), any}; }
  bool has(int rank) const { return nodes_.contains(rank); }
  /// Those of them that nobody can release who does not wait; by rank.
  std::vector<int> stuck() const;

 private:
  struct Node {
    std::vector<int> lacks;
    bool any = false;
  };
  std::map<int, Node> nodes_;
};

/// Follows the waits of others. The ranks go on meanwhile: only what has lasted since before the
/// first question is certain to have been so at one time, and only such waits make a circle.
class WaitChains {
 public:
  using Ask = std::function<std::vector<ProgressReport>(const Inquiry&, std::span<const int>)>;
  /// `self` waits, too, and has `waited` when it began to ask. `elapsed`: since then.
  WaitChains(int self, Duration waited, Ask ask, std::function<Duration()> elapsed)
      : self_(self), waited_(waited), ask_(std::move(ask)), elapsed_(std::move(elapsed)) {}

  /// Any of these, who have told this, could end the wait of `self`. Else it needs all.
  void needs_any_of(std::vector<ProgressReport> reports) { alternatives_ = std::move(reports); }
  /// From the rank that has told this on. What was followed before is not followed again.
  WaitChain follow(ProgressReport at);

 private:
  std::vector<ProgressReport> whom_it_lacks(const ProgressReport& report) const;
  /// All these waits, and that of `self`, were at one time: each began before the first question,
  /// and before any of them was given up.
  bool have_met(std::span<const ProgressReport> waiting) const;
  /// Those who wait for each other for certain, where these waits lead round in a circle.
  std::vector<int> deadlock_of(const std::vector<ProgressReport>& circle) const;
  static bool end_at_a_test(WaitChain& chain, const std::vector<ProgressReport>& way);
  /// The ways on from a circle with a wait that any of several could end: those who wait for each
  /// other whichever way they go; empty where one goes on, or that is not certain.
  std::vector<int> knot_around(const std::vector<ProgressReport>& circle) const;

  int self_;
  Duration waited_;
  std::vector<ProgressReport> alternatives_{};
  Ask ask_;
  std::function<Duration()> elapsed_;
  std::set<int> followed_;
};

/// Ranks that are missing, and what is known of them.
struct MissingRanks {
  std::vector<int> ranks{};
  std::string apart{};    ///< the calls of others, where they differ from this rank's
  std::string words{};    ///< empty: nothing could be found out
  bool any = false;       ///< one of `ranks` would be enough
  bool undriven = false;  ///< these have started the call, and do not progress it
  std::vector<ProgressReport> reports{};  ///< of `ranks`
  std::vector<ProgressReport> unheard{};  ///< of others, of which nothing could be found out
};
/// Those who are missing may wait themselves: adds for whom, and names those instead who are waited
/// for in the end. Only of the first few are the waits followed.
void follow_waits(MissingRanks& missing, WaitChains& chains,
                  const std::function<std::string(int)>& name_of);

/// "rank 2 waits for rank 1; rank 1 waits for rank 0, which is stopped; in the end all wait for
/// rank 0 (vm, pid 7)", "…; deadlock: ranks 0, 1, 2 wait for each other". Empty: no links.
std::string words_of(const WaitChain& chain, const std::function<std::string(int)>& name_of);

}  // namespace hymn::detail
