// Who waits for somebody who waits for somebody: to the one at the end, or round in a circle.
//
// The graph's nodes are the waits. One leads to another where a rank that it lacks waits in the
// other.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tools/trace/verdict.hpp"
#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

using Links = std::vector<std::vector<std::size_t>>;

constexpr std::size_t most_links_told = 12;

bool is_idle(const Case& all, int rank) {
  return all.waits_of[static_cast<std::size_t>(rank)].empty();
}

/// The waits of each rank that tell whom it waits for: the first of each group. Later ones lack the
/// same ranks, and there may be many.
Links telling_waits(const Case& all) {
  Links telling(all.waits_of.size());
  for (std::size_t rank = 0; rank < telling.size(); ++rank)
    for (const std::size_t wait : all.waits_of[rank]) {
      std::vector<std::size_t>& of_rank = telling[rank];
      const Wait* last = of_rank.empty() ? nullptr : &all.waits[of_rank.back()];
      const Wait& next = all.waits[wait];
      const bool is_same =
          last != nullptr && !next.is_p2p && next.making == nullptr && last->group == next.group;
      if (!is_same) of_rank.push_back(wait);
    }
  return telling;
}

/// For each wait, the waits that it leads to.
Links links_of(const Case& all) {
  const Links telling = telling_waits(all);
  Links links(all.waits.size());
  for (std::size_t i = 0; i < all.waits.size(); ++i) {
    for (const int rank : all.waits[i].missing)
      for (const std::size_t next : telling[static_cast<std::size_t>(rank)])
        links[i].push_back(next);
    std::sort(links[i].begin(), links[i].end());
    links[i].erase(std::unique(links[i].begin(), links[i].end()), links[i].end());
  }
  return links;
}

Links reversed(const Links& links) {
  Links back(links.size());
  for (std::size_t from = 0; from < links.size(); ++from)
    for (const std::size_t to : links[from]) back[to].push_back(from);
  return back;
}

/// Breadth first: the way from a wait to each one that can be reached.
class Search {
 public:
  Search(const Links& links, std::size_t start) : came_from_(links.size(), none) {
    order_.push_back(start);
    for (std::size_t i = 0; i < order_.size(); ++i)
      for (const std::size_t next : links[order_[i]]) {
        if (next == start && back_ == none) back_ = order_[i];
        if (next == start || came_from_[next] != none) continue;
        came_from_[next] = order_[i];
        order_.push_back(next);
      }
  }

  /// From the start on, nearest first.
  const std::vector<std::size_t>& order() const { return order_; }
  bool comes_back() const { return back_ != none; }
  /// The shortest circle through the start, which it begins with.
  std::vector<std::size_t> circle() const { return way_to(back_); }
  std::vector<std::size_t> way_to(std::size_t end) const {
    std::vector<std::size_t> way;
    for (std::size_t at = end; at != none; at = came_from_[at]) way.push_back(at);
    std::reverse(way.begin(), way.end());
    return way;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::vector<std::size_t> came_from_;
  std::vector<std::size_t> order_;
  std::size_t back_ = none;
};

std::vector<int> common(const std::vector<int>& a, const std::vector<int>& b) {
  const std::set<int> in_b(b.begin(), b.end());
  std::vector<int> both;
  std::copy_if(a.begin(), a.end(), std::back_inserter(both),
               [&](int r) { return in_b.contains(r); });
  return both;
}

// "ranks 0-1 wait in barrier #3 of group 'dp#1' at solver.cpp:91 for rank 2"; who only tests it, or
// has only started it, does not wait.
std::string link_line(const Wait& wait, const std::vector<int>& awaited) {
  const std::vector<int> blocked = wait.blocked();
  const std::vector<int> ranks = blocked.empty() ? wait.ranks() : blocked;
  const bool one = ranks.size() == 1;
  const bool is_tested = std::ranges::any_of(wait.waiters, &Waiter::tests);
  const std::string_view does = !blocked.empty() ? (one ? "waits in" : "wait in")
                                : is_tested      ? (one ? "tests" : "test")
                                                 : (one ? "has started" : "have started");
  const std::string words =
      fmt::format("{} {} {}{}", ranks_text(ranks), does, wait.what(), at_site(wait.site()));
  if (awaited.empty()) return words + ", which all members have entered";
  return fmt::format("{}{}{}", words, blocked.empty() ? ", which needs " : " for ",
                     ranks_text(awaited));
}

Side side_of(const Wait& wait) { return {wait.ranks(), wait.what(), site_text(wait.site())}; }

// One line for each link: "ranks 0-1 wait in … for rank 2", the next one begins with rank 2.
std::vector<std::string> lines_of(const Case& all, const std::vector<std::size_t>& way,
                                  bool is_circle) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < way.size(); ++i) {
    if (lines.size() == most_links_told) {
      lines.push_back(fmt::format("… and {} more links", way.size() - i));
      break;
    }
    const Wait& wait = all.waits[way[i]];
    const bool is_last = i + 1 == way.size();
    std::vector<int> awaited = wait.missing;
    if (!is_last || is_circle)
      awaited = common(awaited, all.waits[way[(i + 1) % way.size()]].blocked());
    else if (const auto idle = std::find_if(awaited.begin(), awaited.end(),
                                            [&](int rank) { return is_idle(all, rank); });
             idle != awaited.end())
      std::erase_if(awaited, [&](int rank) { return !is_idle(all, rank); });
    lines.push_back(link_line(wait, awaited));
  }
  return lines;
}

Finding about_way(FindingKind kind, const Case& all, const std::vector<std::size_t>& way) {
  Finding finding = finding_about(kind, all.waits[way.back()]);
  finding.details = lines_of(all, way, kind == FindingKind::cycle);
  finding.waiting.clear();
  finding.is_fault = true;
  for (const std::size_t i : way) {
    const Wait& wait = all.waits[i];
    const std::vector<int> ranks = wait.blocked();
    finding.waiting.insert(finding.waiting.end(), ranks.begin(), ranks.end());
    finding.sides.push_back(side_of(wait));
    finding.waited_seconds = std::max(finding.waited_seconds, wait.longest);
    finding.is_fault &= wait.is_fault;
  }
  return finding;
}

Finding circle_finding(const Case& all, const std::vector<std::size_t>& circle) {
  Finding finding = about_way(FindingKind::cycle, all, circle);
  finding.culprits = finding.waiting;
  const bool all_p2p =
      std::all_of(circle.begin(), circle.end(), [&](std::size_t i) { return all.waits[i].is_p2p; });
  finding.title = fmt::format("deadlock: {} wait for each other", ranks_text(finding.waiting));
  finding.details.push_back(
      fmt::format("they have waited {}", seconds_text(finding.waited_seconds)));
  finding.advice =
      all_p2p ? "let one side receive first, or start both sends and receives without blocking"
              : "all ranks have to make the calls on their groups in the same order";
  return finding;
}

// The rank, or the operation, that a chain ends at.
Finding chain_finding(const Case& all, const std::vector<std::size_t>& way) {
  Finding finding = about_way(FindingKind::chain, all, way);
  const Wait& last = all.waits[way.back()];
  for (const int rank : last.missing)
    if (is_idle(all, rank)) finding.culprits.push_back(rank);
  if (finding.culprits.empty()) {
    finding.title = fmt::format("everything waits for {}", last.what());
  } else {
    finding.title = fmt::format("in the end all wait for {}", who(all.job, finding.culprits));
    const int first = finding.culprits[0];
    finding.details.push_back(fmt::format("rank {}: {}", first, whereabouts(all.job, first).text));
  }
  return finding;
}

bool is_end(const Case& all, std::size_t wait, const Links& links) {
  const std::vector<int>& missing = all.waits[wait].missing;
  return links[wait].empty() ||
         std::any_of(missing.begin(), missing.end(), [&](int rank) { return is_idle(all, rank); });
}

}  // namespace

std::vector<Finding> find_cycles(const Case& all) {
  const Links links = links_of(all);
  std::vector<Finding> findings;
  std::vector<bool> is_told(links.size(), false);
  for (std::size_t start = 0; start < links.size(); ++start) {
    if (is_told[start] || links[start].empty()) continue;
    const Search search(links, start);
    if (!search.comes_back()) continue;
    const std::vector<std::size_t> circle = search.circle();
    // Through another wait of a circle that was told, this is part of the same knot.
    const bool is_new =
        std::none_of(circle.begin(), circle.end(), [&](std::size_t i) { return is_told[i]; });
    for (const std::size_t i : circle) is_told[i] = true;
    if (is_new) findings.push_back(circle_finding(all, circle));
  }
  return findings;
}

std::vector<Finding> find_chains(const Case& all) {
  const Links links = links_of(all);
  const Links back = reversed(links);
  std::vector<Finding> findings;
  for (std::size_t end = 0; end < links.size(); ++end) {
    if (back[end].empty() || !is_end(all, end, links)) continue;
    const Search search(back, end);
    std::vector<std::size_t> way = search.way_to(search.order().back());
    std::reverse(way.begin(), way.end());
    findings.push_back(chain_finding(all, way));
    const std::vector<std::size_t>& upstream = search.order();
    std::vector<int> others;
    for (const std::size_t i : upstream) {
      const std::vector<int> ranks = all.waits[i].blocked();
      others.insert(others.end(), ranks.begin(), ranks.end());
    }
    const std::set<int> told(findings.back().waiting.begin(), findings.back().waiting.end());
    std::erase_if(others, [&](int rank) { return told.contains(rank); });
    if (!others.empty())
      findings.back().details.push_back(fmt::format("{} wait for them, too", ranks_text(others)));
  }
  return findings;
}

}  // namespace hymn::trace
