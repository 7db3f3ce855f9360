#include "runtime/world/local_numbers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/meeting.hpp"
#include "control/coordinator.hpp"

namespace hymn::detail {
namespace {

// Of the world's exchange, beside those of world_meeting.cpp, job_map.cpp and world_end.cpp.
constexpr std::uint64_t tag_local = 16;
constexpr std::uint64_t tag_heard = 17;

// After so many words whoever hears them says so.
constexpr std::size_t words_heard = LocalNumbers::most_unheard / 4;

}  // namespace

LocalNumbers::LocalNumbers(ExchangeMux& mux, int rank, int size)
    : mux_(mux),
      world_(mux.channel(ExchangeMux::world_channel)),
      end_(control::undrawn_uid(rank, size)),
      next_(control::first_local_uid_of(rank, size)) {}

std::uint64_t LocalNumbers::draw() {
  const std::lock_guard lock(mutex_);
  return draw_locked();
}

std::uint64_t LocalNumbers::draw_locked() {
  if (next_ == end_)
    throw ResourceError("all numbers of groups that their members make alone are used up",
                        {.rank = world_->rank(), .operation = "new_group"});
  return next_++;
}

LocalNumbers::Claim LocalNumbers::claim(LocalName name) {
  // Made first: nothing must fail once the place is taken.
  Claim claim(new Place{.name = std::move(name)}, [this](Place* place) {
    give_back(*place);
    delete place;
  });
  const std::lock_guard lock(mutex_);
  if (claim->name.leader() == world_->rank()) {
    claim->number = announce(claim->name);
  } else {
    waiting_[claim->name].push_back(last_ticket_ + 1);
    claim->ticket = ++last_ticket_;
  }
  return claim;
}

void LocalNumbers::wait_again(const Place& place) {
  const std::lock_guard lock(mutex_);
  auto& tickets = waiting_[place.name];
  tickets.insert(std::ranges::upper_bound(tickets, place.ticket), place.ticket);
}

void LocalNumbers::give_back(Place& place) noexcept {
  const std::lock_guard lock(mutex_);
  if (place.number) withdraw_locked(place.name, place.number->uid);
  place.number.reset();
  const auto found = waiting_.find(place.name);
  if (found == waiting_.end()) return;
  std::erase(found->second, place.ticket);
  if (found->second.empty()) waiting_.erase(found);
}

std::optional<LocalNumbers::Number> LocalNumbers::try_take(Place& place) {
  const std::lock_guard lock(mutex_);
  if (place.number) return std::exchange(place.number, std::nullopt);
  hear(place.name.leader());
  const auto waiting = waiting_.find(place.name);
  const auto announced = announced_.find(place.name);
  if (waiting == waiting_.end() || announced == announced_.end()) return std::nullopt;
  auto& tickets = waiting->second;
  auto& numbers = announced->second;
  const auto index = std::ranges::find(tickets, place.ticket) - tickets.begin();
  if (index == std::ssize(tickets) || index >= std::ssize(numbers)) return std::nullopt;
  Number number = std::move(numbers[static_cast<std::size_t>(index)]);
  // Both, so that the others keep theirs.
  numbers.erase(numbers.begin() + index);
  tickets.erase(tickets.begin() + index);
  if (numbers.empty()) announced_.erase(announced);
  if (tickets.empty()) waiting_.erase(waiting);
  return number;
}

// Members hear of numbers in the order in which they were drawn: what has been counted as ended
// because later ones have is never announced afterwards.
LocalNumbers::Number LocalNumbers::announce(const LocalName& name) {
  require_listeners(name);
  const std::uint64_t uid = draw_locked();
  Number number{uid, mux_.channel(uid)};
  try {
    for (const int rank : name.ranks) tell(rank, name, uid, true);
  } catch (...) {
    withdraw_locked(name, uid);
    throw;
  }
  return number;
}

void LocalNumbers::withdraw(const LocalName& name, std::uint64_t uid) noexcept {
  const std::lock_guard lock(mutex_);
  withdraw_locked(name, uid);
}

// Why the group was not made is told already.
void LocalNumbers::withdraw_locked(const LocalName& name, std::uint64_t uid) {
  for (const int rank : name.ranks) {
    try {
      if (world_->is_open()) tell(rank, name, uid, false);
    } catch (const std::exception&) {
      continue;  // the others are to know even so
    }
  }
}

void LocalNumbers::tell(int rank, const LocalName& name, std::uint64_t uid, bool is_valid) {
  if (rank == world_->rank()) return;
  Packer packer;
  packer.number(is_valid ? 1 : 0).number(uid).text(name.tag).number(name.ranks.size());
  for (const int member : name.ranks) packer.number(static_cast<std::uint64_t>(member));
  try {
    world_->send(rank, tag_local, packer.packed());
    ++unheard_[rank];
  } catch (const NetworkError&) {
    // That it is gone is found when all members are to meet.
  }
}

// What is sent to a rank that never asks lies there, or in what carries it.
void LocalNumbers::require_listeners(const LocalName& name) {
  ErrorContext context{.rank = world_->rank(), .operation = "new_group"};
  for (const int rank : name.ranks) {
    std::size_t& unheard = unheard_[rank];
    while (unheard >= words_heard && world_->try_receive(rank, tag_heard)) unheard -= words_heard;
    if (unheard + 2 > most_unheard) context.missing.push_back(rank);
  }
  if (context.missing.empty()) return;
  context.remedy = "have them call new_group, too, or make groups without them";
  throw ResourceError(
      fmt::format("ranks [{}] come to none of the groups that rank {} is to make with them: {} "
                  "messages about these wait for each",
                  fmt::join(context.missing, ", "), world_->rank(), most_unheard),
      context);
}

void LocalNumbers::confirm(int leader) {
  try {
    world_->send(leader, tag_heard, {});
  } catch (const NetworkError&) {
    // As in tell().
  }
}

// Whoever waits for this leader sorts for all threads that do.
void LocalNumbers::hear(int leader) {
  while (const auto message = world_->try_receive(leader, tag_local)) {
    Unpacker unpacker(message->bytes);
    const bool is_valid = unpacker.number() == 1;
    const std::uint64_t uid = unpacker.number();
    LocalName name{.ranks = {}, .tag = unpacker.text()};
    name.ranks.resize(unpacker.count());
    for (int& rank : name.ranks) rank = static_cast<int>(unpacker.number());
    auto& numbers = announced_[name];
    if (is_valid)
      numbers.push_back({uid, mux_.channel(uid)});
    else
      std::erase_if(numbers, [uid](const Number& number) { return number.uid == uid; });
    if (numbers.empty()) announced_.erase(name);
    if (++heard_[leader] % words_heard == 0) confirm(leader);
  }
}

}  // namespace hymn::detail
