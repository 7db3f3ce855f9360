#include "runtime/world/local_groups.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/meeting.hpp"
#include "control/coordinator.hpp"
#include "recorder/making_note.hpp"

namespace hymn::detail {
namespace {

// A limit of 0 would be refused.
constexpr Duration shortest_limit = std::chrono::milliseconds(1);

Timeout what_is_left(Timeout limit, Duration gone) {
  return limit.is_none() ? limit : Timeout(std::max(limit.duration() - gone, shortest_limit));
}

}  // namespace

// Whether a group of that name is there, its members see alike only among themselves: so they alone
// make it, even where all ranks call.
LocalGroups::Group LocalGroups::make_or_find(Membership membership, const GroupOptions& options,
                                             const LocalNumbers::Claim& claim) {
  const bool member = factory_.is_member(membership);
  if (!member && options.local_sync) return nullptr;
  const auto make_it = [&] {
    return member ? make(membership, options, claim) : make_for_outsider(membership, options);
  };
  return membership.tag.empty() ? make_it() : factory_.find_or_make(membership, options, make_it);
}

LocalGroups::Group LocalGroups::make_for_outsider(Membership membership,
                                                  const GroupOptions& options) {
  membership.uid = numbers_.draw();
  return factory_.keep(std::move(membership), options, {});
}

// Of groups with a tag there is only one at a time, if any: who makes it claims its number then.
LocalNumbers::Claim LocalGroups::claim_for(const Membership& membership,
                                           const GroupOptions& options) {
  if (!members_alone(options) || !options.tag.empty() || !factory_.is_member(membership)) return {};
  return numbers_.claim({membership.ranks, membership.tag});
}

LocalGroups::Group LocalGroups::make(Membership membership, const GroupOptions& options,
                                     const LocalNumbers::Claim& claim) {
  const Timeout limit = world_.settings.making_limit(options);
  const TimePoint began = world_.clock().now();
  const LocalName name{membership.ranks, membership.tag};
  const LocalNumbers::Number number =
      take_number(name, name.tag.empty() ? claim : numbers_.claim(name), limit);
  membership.uid = number.uid;
  try {
    return factory_.make(std::move(membership), options,
                         what_is_left(limit, world_.clock().now() - began));
  } catch (...) {
    if (name.leader() == world_.rank()) numbers_.withdraw(name, number.uid);
    throw;
  }
}

LocalNumbers::Number LocalGroups::take_number(const LocalName& name,
                                              const LocalNumbers::Claim& claim, Timeout limit) {
  if (claim.number) return *claim.number;
  const std::uint64_t undrawn = control::undrawn_uid(name.leader(), world_.settings.size);
  const std::array awaited{name.leader()};
  try {
    const Patience patience =
        world_.making_patience(fmt::format("making a group of ranks [{}], which they make alone",
                                           fmt::join(name.ranks, ", ")),
                               limit, name.ranks);
    const TimePoint began = patience.clock->now();
    MakingNote note(world_.recorder, undrawn, name.ranks);
    std::optional<LocalNumbers::Number> number;
    PatientWait(patience, awaited).until([&] {
      number = numbers_.try_take(name, claim);
      return number.has_value();
    });
    if (!number) throw_missing(patience, {name.leader()}, began);
    numbers_.give_back(name, claim);
    note.set_made();
    return std::move(*number);
  } catch (...) {
    numbers_.give_back(name, claim);
    Membership leader;
    leader.ranks = {name.leader()};
    leader.uid = undrawn;
    factory_.meeting().give_up(leader, "a group");
  }
}

}  // namespace hymn::detail
