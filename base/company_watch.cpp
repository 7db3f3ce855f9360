#include "base/company_watch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace hymn {
namespace {

// What was said before somebody was lost is here by then.
constexpr Duration way_of_words = std::chrono::milliseconds(100);
// Who has ended its world may have finished what others still are at, on cores that they share.
constexpr Duration way_of_last_words = std::chrono::seconds(10);
// To look takes longer than a turn of a waiting thread.
constexpr Duration time_between_polls = std::chrono::milliseconds(1);
constexpr std::size_t looked_at_once = 16;

}  // namespace

void CompanyWatch::look(TimePoint now) {
  // Nor is there any need of it where the others come at once.
  if (!last_look_) last_look_ = now;
  if (now - *last_look_ < time_between_polls) return;
  last_look_ = now;
  if (has_lasted(failed_, company_.is_hopeless, way_of_words, now)) tell(failed_.ranks);
  if (has_lasted(left_, company_.has_left, way_of_last_words, now)) tell(left_.ranks);
}

// Of hundreds each look would take longer than the time between two.
bool CompanyWatch::meets_gone(Absence& absence, const std::function<bool(int)>& is_gone) const {
  const std::size_t size = company_.ranks.size();
  for (std::size_t i = 0; i < std::min(size, looked_at_once); ++i) {
    const std::size_t place = absence.next++ % size;
    if (is_gone(company_.ranks[place])) return true;
  }
  return false;
}

bool CompanyWatch::has_lasted(Absence& absence, const std::function<bool(int)>& is_gone,
                              Duration grace, TimePoint now) const {
  // Those who go after the first may go because of them.
  if (absence.ranks.empty()) {
    if (!meets_gone(absence, is_gone)) return false;
    std::ranges::copy_if(company_.ranks, std::back_inserter(absence.ranks), is_gone);
    absence.since = now;
  }
  if (absence.ranks.empty() || now - absence.since < grace) return false;
  // Who was lost may have been found again.
  std::erase_if(absence.ranks, [&](int rank) { return !is_gone(rank); });
  return !absence.ranks.empty();
}

void CompanyWatch::tell(const std::vector<int>& gone) const {
  std::vector<std::string> words;
  std::ranges::transform(gone, std::back_inserter(words), company_.tell_of);
  ErrorContext context = context_;
  context.missing = gone;
  context.remedy = "find out why it has ended, and go on with the ranks that are left";
  throw PeerError(fmt::format("{}: {}", purpose_, fmt::join(words, "; ")), std::move(context));
}

TimeoutError with_known(const TimeoutError& error, const Company& company,
                        std::span<const int> idle) {
  std::string problem = error.problem();
  std::vector<int> known;
  for (const int rank : company.ranks) {
    const std::string words = company.tell_of(rank);
    if (words.empty()) continue;
    // Whoever else is missing may be held up by it.
    known.push_back(rank);
    if (problem.find(words) == std::string::npos) problem += "; " + words;
  }
  ErrorContext context = error.context();
  if (!known.empty())
    std::erase_if(context.missing, [&](int rank) {
      return std::ranges::count(known, rank) == 0 && std::ranges::count(idle, rank) == 0;
    });
  for (const int rank : known)
    if (std::ranges::count(context.missing, rank) == 0) context.missing.push_back(rank);
  std::ranges::sort(context.missing);
  return TimeoutError(problem, error.waited(), std::move(context));
}

}  // namespace hymn
