#include "runtime/rank/wait_chain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "recorder/rank_list.hpp"
#include "runtime/rank/some_names.hpp"

namespace hymn::detail {
namespace {

constexpr std::size_t most_links = 64;
constexpr std::size_t most_told = 12;
// Of more ranks nobody would read whom they wait for.
constexpr std::size_t most_followed = 8;
// So long a message that has come may lie there before it is seen.
constexpr double settled_after = 100;  // milliseconds

/// Or has given up waiting, and left for that reason.
bool waits(const ProgressReport& report) {
  if (report.stopped || report.awaited.ranks.empty()) return false;
  return is_gone(report.state) ? report.awaited.ended != 0 : report.answered;
}

bool waits_for_any(const ProgressReport& report) { return report.awaited.any; }
bool tests(const ProgressReport& report) { return report.awaited.tests; }

std::vector<int> ranks_of(std::span<const ProgressReport> reports) {
  std::vector<int> ranks;
  for (const ProgressReport& report : reports) ranks.push_back(report.rank);
  return ranks;
}

std::string ranks_text(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  const std::string_view more = ranks.size() > most_told ? ", …" : "";
  ranks.resize(std::min(ranks.size(), most_told));
  return fmt::format("{} {}{}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "), more);
}

/// Why it does nothing any more; empty: it may.
std::string_view state_of(const ProgressReport& end) {
  if (end.stopped) return ", which is stopped";
  if (is_gone(end.state)) return ", which is gone";
  return end.answered ? "" : ", which does not answer";
}

std::string end_words(const ProgressReport& end, const std::function<std::string(int)>& name_of) {
  // More than that a process is stopped need not be known of it.
  return end.stopped ? name_of(end.rank) : fmt::format("{}: {}", name_of(end.rank), end.doing);
}

}  // namespace

bool WaitChain::is_certain() const {
  return circle.empty() && std::ranges::none_of(links, &Link::tests) &&
         std::ranges::none_of(ends,
                              [](const ProgressReport& end) { return state_of(end).empty(); });
}

std::vector<ProgressReport> WaitChains::whom_it_lacks(const ProgressReport& report) const {
  std::vector<int> ranks = unpack_ranks(report.awaited.ranks).value_or(std::vector<int>());
  std::erase(ranks, report.rank);
  const Inquiry about{report.awaited.uid, report.awaited.sequence};
  std::vector<ProgressReport> reports = ask_(about, ranks);
  std::erase_if(reports, [&](const ProgressReport& other) {
    // Who is gone does not end it; all others may.
    if (report.awaited.any) return is_gone(other.state) && !waits(other);
    if (report.awaited.makes) return other.knows_group || other.makes;
    // Who is stopped or dead in the middle of it keeps the others, too.
    const bool stays_in_it =
        (other.stopped || has_failed(other.state)) && other.completed < about.sequence;
    return about.sequence != 0 && other.entered >= about.sequence && !stays_in_it;
  });
  return reports;
}

// All told their times between the first question and now, so that "now" is on the safe side.
bool WaitChains::have_met(std::span<const ProgressReport> waiting) const {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const double elapsed = Milliseconds(elapsed_()).count();
  double when = elapsed;
  for (const ProgressReport& report : waiting)
    when = std::max(when, elapsed + static_cast<double>(report.awaited.ended));
  return std::ranges::all_of(waiting, [&](const ProgressReport& report) {
    const double waited = report.rank == self_ ? Milliseconds(waited_).count() + elapsed
                                               : static_cast<double>(report.awaited.milliseconds);
    return waited > when + settled_after;
  });
}

std::vector<int> WaitGraph::stuck() const {
  std::map<int, Node> stuck = nodes_;
  const auto is_stuck = [&](int rank) { return stuck.contains(rank); };
  const auto may_go_on = [&](const auto& entry) {
    const Node& node = entry.second;
    return node.any ? !std::ranges::all_of(node.lacks, is_stuck)
                    : std::ranges::none_of(node.lacks, is_stuck);
  };
  while (std::erase_if(stuck, may_go_on) != 0) continue;
  std::vector<int> ranks;
  for (const auto& [rank, node] : stuck) ranks.push_back(rank);
  return ranks;
}

std::vector<int> WaitChains::knot_around(const std::vector<ProgressReport>& circle) const {
  WaitGraph graph;
  std::vector<ProgressReport> open = circle;
  std::vector<ProgressReport> waiting;
  for (std::size_t i = 0; i < open.size() && i < most_links; ++i) {
    const ProgressReport report = open[i];
    const bool is_self = report.rank == self_;
    // Who has only just come to wait may as well go on.
    const bool stays =
        is_self || (waits(report) && !tests(report) && have_met(std::span(&report, 1)));
    if (graph.has(report.rank) || !stays) continue;
    const std::vector<ProgressReport> lacking = is_self ? alternatives_ : whom_it_lacks(report);
    graph.add(report.rank, ranks_of(lacking), is_self || report.awaited.any);
    waiting.push_back(report);
    open.insert(open.end(), lacking.begin(), lacking.end());
  }
  std::vector<int> stuck = graph.stuck();
  const auto is_stuck = [&](const ProgressReport& report) {
    return std::ranges::count(stuck, report.rank) != 0;
  };
  std::erase_if(waiting, std::not_fn(is_stuck));
  if (!std::ranges::all_of(circle, is_stuck) || !have_met(waiting)) stuck.clear();
  return stuck;
}

std::vector<int> WaitChains::deadlock_of(const std::vector<ProgressReport>& circle) const {
  if (std::ranges::any_of(circle, tests)) return {};
  if (std::ranges::any_of(circle, waits_for_any)) return knot_around(circle);
  return have_met(circle) ? ranks_of(circle) : std::vector<int>();
}

// The first on the way is who asks; each of the others has a link.
bool WaitChains::end_at_a_test(WaitChain& chain, const std::vector<ProgressReport>& way) {
  const auto tester = std::find_if(way.begin() + 1, way.end(), tests);
  if (tester == way.end()) return false;
  chain.links.resize(static_cast<std::size_t>(tester - way.begin()) - 1);
  chain.ends = {*tester};
  return true;
}

WaitChain WaitChains::follow(ProgressReport at) {
  WaitChain chain;
  std::vector<ProgressReport> way{{.rank = self_}};
  way.front().awaited.any = !alternatives_.empty();
  while (waits(at) && chain.links.size() < most_links) {
    chain.is_told = !followed_.insert(at.rank).second;
    if (chain.is_told) return chain;
    way.push_back(at);
    const std::vector<ProgressReport> lacking = whom_it_lacks(at);
    if (lacking.empty()) break;  // all have entered it: it is this one that does not come out
    const std::vector<int> missing = ranks_of(lacking);
    chain.links.push_back(
        {at.rank, missing, at.awaited.any && missing.size() > 1, at.awaited.tests});
    const auto back = std::ranges::find_first_of(way, missing, {}, &ProgressReport::rank);
    if (back != way.end()) chain.circle = deadlock_of({back, way.end()});
    // Who tests, instead of waiting, may do something else: all wait for that.
    if (back != way.end() && chain.circle.empty() && end_at_a_test(chain, way)) return chain;
    // With a way out it is told who that is.
    if (back != way.end() && (!chain.circle.empty() || !chain.links.back().any)) return chain;
    std::ranges::remove_copy_if(
        lacking, std::back_inserter(chain.ends),
        [&](const ProgressReport& one) { return one.rank == self_ || waits(one); });
    if (!chain.ends.empty() || back != way.end()) return chain;
    at = lacking.front();
  }
  if (!chain.links.empty() && chain.links.size() < most_links) chain.ends = {at};
  return chain;
}

void follow_waits(MissingRanks& missing, WaitChains& chains,
                  const std::function<std::string(int)>& name_of) {
  if (missing.any) {
    std::vector<ProgressReport> all = missing.reports;
    // Nothing comes of who is gone; who was not heard of may send yet.
    std::erase_if(
        all, [](const ProgressReport& report) { return is_gone(report.state) && !waits(report); });
    all.insert(all.end(), missing.unheard.begin(), missing.unheard.end());
    chains.needs_any_of(std::move(all));
  }
  std::vector<std::string> words;
  std::vector<int> ranks;
  bool is_certain = true;
  for (std::size_t i = 0; i < missing.reports.size(); ++i) {
    const ProgressReport& report = missing.reports[i];
    const WaitChain chain = i < most_followed ? chains.follow(report) : WaitChain();
    if (!chain.links.empty()) words.push_back(words_of(chain, name_of));
    ranks.insert(ranks.end(), chain.circle.begin(), chain.circle.end());
    for (const ProgressReport& end : chain.ends) ranks.push_back(end.rank);
    if (chain.circle.empty() && chain.ends.empty() && !chain.is_told) ranks.push_back(report.rank);
    // What was told before has said whether it is.
    if (!chain.is_told)
      is_certain =
          is_certain && (chain.links.empty() ? !state_of(report).empty() : chain.is_certain());
  }
  if (words.empty()) return;
  // Whoever can still do something may do so, and the first that are missing may not come even
  // then.
  if (!is_certain) ranks.insert(ranks.end(), missing.ranks.begin(), missing.ranks.end());
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  missing.ranks = std::move(ranks);
  missing.words += "; " + some_of(std::move(words));
}

std::string words_of(const WaitChain& chain, const std::function<std::string(int)>& name_of) {
  std::vector<std::string> words;
  for (const WaitChain::Link& link : chain.links) {
    if (words.size() == most_told) {
      words.push_back(fmt::format("… and {} more links", chain.links.size() - most_told));
      break;
    }
    words.push_back(fmt::format("rank {} {} {}{}", link.rank,
                                link.tests ? "tests a call that needs" : "waits for",
                                link.any ? "any of " : "", ranks_text(link.missing)));
  }
  if (!chain.circle.empty()) {
    words.push_back(fmt::format("deadlock: {} wait for each other", ranks_text(chain.circle)));
  } else if (!chain.ends.empty()) {
    if (chain.ends.size() == 1) words.back() += state_of(chain.ends.front());
    std::vector<std::string> ends;
    for (const ProgressReport& end : chain.ends)
      if (ends.size() < most_told) ends.push_back(end_words(end, name_of));
    words.push_back(fmt::format("in the end all wait for {}", fmt::join(ends, ", and ")));
  }
  return fmt::format("{}", fmt::join(words, "; "));
}

}  // namespace hymn::detail
