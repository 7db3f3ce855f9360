#include "runtime/world/local_groups.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/meeting.hpp"
#include "base/tag_text.hpp"
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
  if (!members_alone(options) || !options.tag.empty() || !factory_.is_member(membership) ||
      world_.settings.fake != nullptr)
    return nullptr;
  return numbers_.claim({membership.ranks, membership.tag});
}

LocalGroups::Group LocalGroups::make(Membership membership, const GroupOptions& options,
                                     const LocalNumbers::Claim& claim) {
  const Timeout limit = world_.settings.making_limit(options);
  if (world_.settings.fake != nullptr) {  // nobody else has to know it
    membership.uid = numbers_.draw();
    if (membership.tag.empty())
      membership.tag = fmt::format("{}{}", TaggedGroups::automatic,
                                   world_.settings.fake->name_group(membership.ranks));
    return factory_.make(std::move(membership), options, limit);
  }
  const TimePoint began = world_.clock().now();
  const LocalNumbers::Claim own =
      claim != nullptr ? claim : numbers_.claim({membership.ranks, membership.tag});
  const auto left = [&] { return what_is_left(limit, world_.clock().now() - began); };
  while (true) {
    const LocalNumbers::Number number = take_number(*own, left());
    membership.uid = number.uid;
    // Before others are asked, which takes its time, and in which the next may come.
    const auto in_vain = [&] {
      if (own->name.leader() == world_.rank()) numbers_.withdraw(own->name, number.uid);
    };
    try {
      return factory_.make(membership, options, left(), in_vain);
    } catch (const MissedMeeting&) {
      // It was withdrawn before this rank came, who has not heard so yet: the next one counts.
      if (Deadline::after(limit, began).expired(world_.clock().now()))
        factory_.meeting().give_up(membership, fmt::format("group {}", membership.uid));
      numbers_.wait_again(*own);
    }
  }
}

LocalNumbers::Number LocalGroups::take_number(LocalNumbers::Place& place, Timeout limit) {
  const LocalName& name = place.name;
  if (name.leader() == world_.rank()) return *numbers_.try_take(place);
  const std::uint64_t undrawn = control::undrawn_uid(name.leader(), world_.settings.size);
  const std::array awaited{name.leader()};
  try {
    const Patience patience =
        world_.making_patience(fmt::format("making a group of ranks [{}]{}, which they make alone",
                                           fmt::join(name.ranks, ", "), with_tag(name.tag)),
                               limit, name.ranks);
    const TimePoint began = patience.clock->now();
    MakingNote note(world_.recorder, undrawn, name.ranks, MakingKind::new_group, name.tag);
    std::optional<LocalNumbers::Number> number;
    PatientWait(patience, awaited).until([&] {
      number = numbers_.try_take(place);
      return number.has_value();
    });
    if (!number) throw_missing(patience, {name.leader()}, began);
    note.set_made();
    return std::move(*number);
  } catch (...) {
    numbers_.give_back(place);
    Membership leader;
    leader.ranks = {name.leader()};
    leader.uid = undrawn;
    factory_.meeting().give_up(leader, "a group");
  }
}

}  // namespace hymn::detail
