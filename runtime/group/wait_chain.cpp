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
constexpr double settled_after = 0.1;  // seconds

bool waits(const Tale& tale) {
  return tale.answered && !tale.stopped && !is_gone(tale.state) && !tale.awaited.ranks.empty();
}

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
  return circle.empty() &&
         std::ranges::none_of(ends, [](const Tale& end) { return state_of(end).empty(); });
}

std::vector<Tale> WaitChains::whom_it_lacks(const Tale& tale) const {
  std::vector<int> ranks = unpack_ranks(tale.awaited.ranks).value_or(std::vector<int>());
  std::erase(ranks, tale.rank);
  const Inquiry about{tale.awaited.uid, tale.awaited.sequence};
  std::vector<Tale> tales = ask_(about, ranks);
  std::erase_if(tales, [&](const Tale& other) {
    if (tale.awaited.makes) return other.knows_group || other.makes;
    return about.sequence != 0 && other.entered >= about.sequence;
  });
  return tales;
}

bool WaitChains::has_lasted(const Tale& tale) const {
  const double asked = std::chrono::duration<double>(elapsed_()).count();
  return static_cast<double>(tale.awaited.milliseconds) / 1e3 > asked + settled_after;
}

WaitChain WaitChains::follow(Tale at) {
  WaitChain chain;
  std::vector<int> way{self_};
  bool all_last = true;
  while (waits(at) && chain.links.size() < most_links) {
    chain.is_told = !followed_.insert(at.rank).second;
    if (chain.is_told) return chain;
    way.push_back(at.rank);
    all_last = all_last && has_lasted(at);
    const std::vector<Tale> lacking = whom_it_lacks(at);
    if (lacking.empty()) break;  // all have entered it: it is this one that does not come out
    const std::vector<int> missing = ranks_of(lacking);
    chain.links.push_back({at.rank, missing});
    const auto back = std::ranges::find_first_of(way, missing);
    if (back != way.end()) {
      if (all_last) chain.circle.assign(back, way.end());
      return chain;
    }
    std::ranges::remove_copy_if(lacking, std::back_inserter(chain.ends), waits);
    if (!chain.ends.empty()) return chain;
    at = lacking.front();
  }
  if (!chain.links.empty() && chain.links.size() < most_links) chain.ends = {at};
  return chain;
}

void follow_waits(MissingRanks& missing, WaitChains& chains,
                  const std::function<std::string(int)>& name_of) {
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
    words.push_back(fmt::format("rank {} waits for {}", link.rank, ranks_text(link.missing)));
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
