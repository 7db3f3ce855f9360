#include "runtime/world/local_numbers.hpp"

#include <algorithm>

#include "base/meeting.hpp"
#include "control/coordinator.hpp"

namespace hymn::detail {
namespace {

// Of the world's exchange, beside those of world_meeting.cpp, job_map.cpp and world_end.cpp.
constexpr std::uint64_t tag_local = 16;

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

// Members hear of numbers in the order in which they were drawn: what has been counted as ended
// because later ones have is never announced afterwards.
LocalNumbers::Number LocalNumbers::announce(const LocalName& name) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t uid = draw_locked();
  Number number{uid, mux_.channel(uid)};
  tell(name, uid, true);
  return number;
}

void LocalNumbers::withdraw(const LocalName& name, std::uint64_t uid) noexcept {
  try {
    if (world_->is_open()) tell(name, uid, false);
  } catch (const std::exception&) {
    // Why the group was not made is told already.
  }
}

void LocalNumbers::tell(const LocalName& name, std::uint64_t uid, bool is_valid) {
  Packer packer;
  packer.number(is_valid ? 1 : 0).number(uid).text(name.tag).number(name.ranks.size());
  for (const int rank : name.ranks) packer.number(static_cast<std::uint64_t>(rank));
  for (const int rank : name.ranks) {
    if (rank == world_->rank()) continue;
    try {
      world_->send(rank, tag_local, packer.packed());
    } catch (const NetworkError&) {
      // That it is gone is found when all members are to meet.
    }
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
  }
}

LocalNumbers::Claim LocalNumbers::claim(const LocalName& name) {
  if (name.leader() == world_->rank()) return {.number = announce(name)};
  const std::lock_guard lock(mutex_);
  waiting_[name].push_back(++last_ticket_);
  return {.ticket = last_ticket_};
}

void LocalNumbers::give_back(const LocalName& name, const Claim& claim) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(name);
  if (found == waiting_.end()) return;
  std::erase(found->second, claim.ticket);
  if (found->second.empty()) waiting_.erase(found);
}

std::optional<LocalNumbers::Number> LocalNumbers::try_take(const LocalName& name,
                                                           const Claim& claim) {
  const std::lock_guard lock(mutex_);
  hear(name.leader());
  const auto waiting = waiting_.find(name);
  if (waiting == waiting_.end() || waiting->second.front() != claim.ticket) return std::nullopt;
  const auto found = announced_.find(name);
  if (found == announced_.end()) return std::nullopt;
  Number number = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) announced_.erase(found);
  return number;
}

}  // namespace hymn::detail
