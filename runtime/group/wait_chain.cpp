#include "runtime/group/wait_chain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "recorder/rank_list.hpp"
#include "runtime/group/some_names.hpp"

namespace hymn::detail {
namespace {

constexpr std::size_t most_links = 64;
constexpr std::size_t most_told = 12;
// Of more ranks nobody would read whom they wait for.
constexpr std::size_t most_followed = 8;
// So long a message that has come may lie there before it is seen.
constexpr double settled_after = 100;  // milliseconds

/// Or has given up waiting, and left for that reason.
bool waits(const Tale& tale) {
  if (tale.stopped || tale.awaited.ranks.empty()) return false;
  return is_gone(tale.state) ? tale.awaited.ended != 0 : tale.answered;
}

bool waits_for_any(const Tale& tale) { return tale.awaited.any; }
bool tests(const Tale& tale) { return tale.awaited.tests; }

std::vector<int> ranks_of(std::span<const Tale> tales) {
  std::vector<int> ranks;
  for (const Tale& tale : tales) ranks.push_back(tale.rank);
  return ranks;
}

std::string ranks_text(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  const std::string_view more = ranks.size() > most_told ? ", …" : "";
  ranks.resize(std::min(ranks.size(), most_told));
  return fmt::format("{} {}{}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "), more);
}

/// Why it does nothing any more; empty: it may.
std::string_view state_of(const Tale& end) {
  if (end.stopped) return ", which is stopped";
  if (is_gone(end.state)) return ", which is gone";
  return end.answered ? "" : ", which does not answer";
}

std::string end_words(const Tale& end, const std::function<std::string(int)>& name_of) {
  // More than that a process is stopped need not be known of it.
  return end.stopped ? name_of(end.rank) : fmt::format("{}: {}", name_of(end.rank), end.doing);
}

}  // namespace

bool WaitChain::is_certain() const {
  return circle.empty() && std::ranges::none_of(links, &Link::tests) &&
         std::ranges::none_of(ends, [](const Tale& end) { return state_of(end).empty(); });
}

std::vector<Tale> WaitChains::whom_it_lacks(const Tale& tale) const {
  std::vector<int> ranks = unpack_ranks(tale.awaited.ranks).value_or(std::vector<int>());
  std::erase(ranks, tale.rank);
  const Inquiry about{tale.awaited.uid, tale.awaited.sequence};
  std::vector<Tale> tales = ask_(about, ranks);
  std::erase_if(tales, [&](const Tale& other) {
    // Who is gone does not end it; all others may.
    if (tale.awaited.any) return is_gone(other.state) && !waits(other);
    if (tale.awaited.makes) return other.knows_group || other.makes;
    // Who is stopped or dead in the middle of it keeps the others, too.
    const bool stays_in_it =
        (other.stopped || has_failed(other.state)) && other.completed < about.sequence;
    return about.sequence != 0 && other.entered >= about.sequence && !stays_in_it;
  });
  return tales;
}

// All told their times between the first question and now, so that "now" is on the safe side.
bool WaitChains::have_met(std::span<const Tale> waiting) const {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const double elapsed = Milliseconds(elapsed_()).count();
  double when = elapsed;
  for (const Tale& tale : waiting)
    when = std::max(when, elapsed + static_cast<double>(tale.awaited.ended));
  return std::ranges::all_of(waiting, [&](const Tale& tale) {
    const double waited = tale.rank == self_ ? Milliseconds(waited_).count() + elapsed
                                             : static_cast<double>(tale.awaited.milliseconds);
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

std::vector<int> WaitChains::knot_around(const std::vector<Tale>& circle) const {
  WaitGraph graph;
  std::vector<Tale> open = circle;
  std::vector<Tale> waiting;
  for (std::size_t i = 0; i < open.size() && i < most_links; ++i) {
    const Tale tale = open[i];
    const bool is_self = tale.rank == self_;
    // Who has only just come to wait may as well go on.
    const bool stays = is_self || (waits(tale) && !tests(tale) && have_met(std::span(&tale, 1)));
    if (graph.has(tale.rank) || !stays) continue;
    const std::vector<Tale> lacking = is_self ? alternatives_ : whom_it_lacks(tale);
    graph.add(tale.rank, ranks_of(lacking), is_self || tale.awaited.any);
    waiting.push_back(tale);
    open.insert(open.end(), lacking.begin(), lacking.end());
  }
  std::vector<int> stuck = graph.stuck();
  const auto is_stuck = [&](const Tale& tale) { return std::ranges::count(stuck, tale.rank) != 0; };
  std::erase_if(waiting, std::not_fn(is_stuck));
  if (!std::ranges::all_of(circle, is_stuck) || !have_met(waiting)) stuck.clear();
  return stuck;
}

std::vector<int> WaitChains::deadlock_of(const std::vector<Tale>& circle) const {
  if (std::ranges::any_of(circle, tests)) return {};
  if (std::ranges::any_of(circle, waits_for_any)) return knot_around(circle);
  return have_met(circle) ? ranks_of(circle) : std::vector<int>();
}

WaitChain WaitChains::follow(Tale at) {
  WaitChain chain;
  std::vector<Tale> way{{.rank = self_}};
  way.front().awaited.any = !alternatives_.empty();
  while (waits(at) && chain.links.size() < most_links) {
    chain.is_told = !followed_.insert(at.rank).second;
    if (chain.is_told) return chain;
    way.push_back(at);
    const std::vector<Tale> lacking = whom_it_lacks(at);
    if (lacking.empty()) break;  // all have entered it: it is this one that does not come out
    const std::vector<int> missing = ranks_of(lacking);
    chain.links.push_back(
        {at.rank, missing, at.awaited.any && missing.size() > 1, at.awaited.tests});
    const auto back = std::ranges::find_first_of(way, missing, {}, &Tale::rank);
    if (back != way.end()) chain.circle = deadlock_of({back, way.end()});
    // With a way out it is told who that is.
    if (back != way.end() && (!chain.circle.empty() || !chain.links.back().any)) return chain;
    std::ranges::remove_copy_if(lacking, std::back_inserter(chain.ends),
                                [&](const Tale& one) { return one.rank == self_ || waits(one); });
    if (!chain.ends.empty() || back != way.end()) return chain;
    at = lacking.front();
  }
  if (!chain.links.empty() && chain.links.size() < most_links) chain.ends = {at};
  return chain;
}

void follow_waits(MissingRanks& missing, WaitChains& chains,
                  const std::function<std::string(int)>& name_of) {
  if (missing.any) {
    std::vector<Tale> all = missing.tales;
    // Nothing comes of who is gone; who was not heard of may send yet.
    std::erase_if(all, [](const Tale& tale) { return is_gone(tale.state) && !waits(tale); });
    all.insert(all.end(), missing.unheard.begin(), missing.unheard.end());
    chains.needs_any_of(std::move(all));
  }
  std::vector<std::string> words;
  std::vector<int> ranks;
  bool is_certain = true;
  for (std::size_t i = 0; i < missing.tales.size(); ++i) {
    const Tale& tale = missing.tales[i];
    const WaitChain chain = i < most_followed ? chains.follow(tale) : WaitChain();
    if (!chain.links.empty()) words.push_back(words_of(chain, name_of));
    ranks.insert(ranks.end(), chain.circle.begin(), chain.circle.end());
    for (const Tale& end : chain.ends) ranks.push_back(end.rank);
    if (chain.circle.empty() && chain.ends.empty() && !chain.is_told) ranks.push_back(tale.rank);
    // What was told before has said whether it is.
    if (!chain.is_told)
      is_certain =
          is_certain && (chain.links.empty() ? !state_of(tale).empty() : chain.is_certain());
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
    for (const Tale& end : chain.ends)
      if (ends.size() < most_told) ends.push_back(end_words(end, name_of));
    words.push_back(fmt::format("in the end all wait for {}", fmt::join(ends, ", and ")));
  }
  return fmt::format("{}", fmt::join(words, "; "));
}

}  // namespace hymn::detail
