#include "runtime/rank/peer_directory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "control/process_watch.hpp"

namespace hymn::detail {

std::vector<int> PeerDirectory::all_ranks() const {
  std::vector<int> ranks(static_cast<std::size_t>(size_));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::string PeerDirectory::name_of(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  if (index >= persons_.size()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({}, pid {})", rank, persons_[index].host, persons_[index].pid);
}

std::string PeerDirectory::describe_end(const PeerNews& news) const {
  const char* const verb = hymn::has_failed(news.state) ? "is" : "has";
  const std::string words =
      fmt::format("{} {} {}: {}", name_of(news.rank), verb, to_string(news.state), news.detail);
  return words + tell_culprits(news, words);
}

std::string PeerDirectory::tell_culprits(const PeerNews& news, std::string_view told) const {
  std::string words;
  for (const int culprit : news.culprits)
    if (told.find(name_of(culprit)) == std::string_view::npos)
      words += fmt::format(", a failure of {}", name_of(culprit));
  return words;
}

std::string PeerDirectory::tell_of(int rank) const {
  if (agent_)
    if (const PeerNews news = agent_->news_of(rank); is_gone(news.state)) return describe_end(news);
  if (persons_.empty()) return early_ ? early_->tell_of(rank) : "";
  const Person& person = this->person(rank);
  if (is_over(rank))
    return describe_end(
        {.rank = rank, .state = PeerState::dead, .detail = words_of_end(how_it_ended(person.pid))});
  return person.in_sight && is_stopped(person.pid) ? name_of(rank) + " is stopped" : "";
}

std::vector<int> PeerDirectory::gone_ranks_in(std::string_view text) const {
  std::vector<int> named = all_ranks();
  std::erase_if(named, [&](int rank) {
    return text.find(name_of(rank)) == std::string_view::npos || tell_of(rank).empty();
  });
  return culprits_for(named);
}

std::vector<int> PeerDirectory::culprits_for(const std::vector<int>& missing) const {
  if (!agent_) return missing;
  std::vector<PeerNews> news;
  for (const int rank : missing) news.push_back(agent_->news_of(rank));
  return culprits_of(news);
}

// Who has left may still have sent something on its way out; but not who left because of a failure.
// Until there is a control plane, processes can at least be seen.
bool PeerDirectory::is_hopeless(int rank) const {
  if (!agent_) return is_over(rank);
  const PeerNews news = agent_->news_of(rank);
  return hymn::has_failed(news.state) || (is_gone(news.state) && news.broke_off);
}

bool PeerDirectory::is_dead(int rank) const {
  return agent_ && agent_->news_of(rank).state == PeerState::dead;
}

bool PeerDirectory::has_left(int rank) const {
  return agent_ && agent_->news_of(rank).state == PeerState::left;
}

bool PeerDirectory::is_over(int rank) const {
  if (persons_.empty()) return early_ && early_->has_ended(rank);
  const auto index = static_cast<std::size_t>(rank);
  return index < persons_.size() && persons_[index].in_sight && has_ended(persons_[index].pid);
}

Company PeerDirectory::company(std::vector<int> ranks) const {
  return {.ranks = std::move(ranks),
          .is_hopeless = [this](int rank) { return is_hopeless(rank); },
          .has_left = [this](int rank) { return has_left(rank); },
          .tell_of = [this](int rank) { return tell_of(rank); }};
}

}  // namespace hymn::detail
