// Who waits for somebody who waits for somebody: to the ranks at the end, or round in a circle.
#pragma once

#include <functional>
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
  };
  std::vector<Link> links{};  ///< each leads to the next; none: the rank does not wait
  std::vector<Tale> ends{};   ///< who keeps the last link, and does not wait, or cannot be asked
  std::vector<int> circle{};  ///< who waits for each other
  bool is_told = false;       ///< it leads into one that was followed before

  /// No wait of the way ends before somebody sees to those at its end: they are stopped or gone.
  bool is_certain() const;
};

/// Follows the waits of others. The ranks go on meanwhile: only what has lasted since before the
/// first question is certain to have been so at one time, and only such waits make a circle.
class WaitChains {
 public:
  using Ask = std::function<std::vector<Tale>(const Inquiry&, std::span<const int>)>;
  /// `self` waits, too. `elapsed`: since it began to ask.
  WaitChains(int self, Ask ask, std::function<Duration()> elapsed)
      : self_(self), ask_(std::move(ask)), elapsed_(std::move(elapsed)) {}

  /// From the rank that has told this on. What was followed before is not followed again.
  WaitChain follow(Tale at);

 private:
  std::vector<Tale> whom_it_lacks(const Tale& tale) const;
  bool has_lasted(const Tale& tale) const;

  int self_;
  Ask ask_;
  std::function<Duration()> elapsed_;
  std::set<int> followed_;
};

/// Ranks that are missing, and what is known of them.
struct MissingRanks {
  std::vector<int> ranks{};
  std::string apart{};        ///< the calls of others, where they differ from this rank's
  std::string words{};        ///< empty: nothing could be found out
  std::vector<Tale> tales{};  ///< of `ranks`
};
/// Those who are missing may wait themselves: adds for whom, and names those instead who are waited
/// for in the end. Only of the first few are the waits followed.
void follow_waits(MissingRanks& missing, WaitChains& chains,
                  const std::function<std::string(int)>& name_of);

/// "rank 2 waits for rank 1; rank 1 waits for rank 0, which is stopped; in the end all wait for
/// rank 0 (vm, pid 7)", "…; deadlock: ranks 0, 1, 2 wait for each other". Empty: no links.
std::string words_of(const WaitChain& chain, const std::function<std::string(int)>& name_of);

}  // namespace hymn::detail
