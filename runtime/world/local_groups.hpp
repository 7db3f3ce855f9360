// Groups that their members make alone.
#pragma once

#include "runtime/world/group_factory.hpp"
#include "runtime/world/local_numbers.hpp"

namespace hymn::detail {

/// Any thread may call anything.
class LocalGroups {
 public:
  using Group = GroupFactory::Group;
  LocalGroups(WorldContext& world, GroupFactory& factory, ExchangeMux& mux)
      : world_(world), factory_(factory), numbers_(mux, world.rank(), world.settings.size) {}

  /// The place of this call among those of its name, for make_or_find(); null: it needs none yet.
  LocalNumbers::Claim claim_for(const Membership& membership, const GroupOptions& options);
  /// Null on a rank outside that did not need to call.
  Group make_or_find(Membership membership, const GroupOptions& options,
                     const LocalNumbers::Claim& claim);

 private:
  Group make(Membership membership, const GroupOptions& options, const LocalNumbers::Claim& claim);
  Group make_for_outsider(Membership membership, const GroupOptions& options);
  LocalNumbers::Number take_number(LocalNumbers::Place& place, Timeout limit);

  WorldContext& world_;
  GroupFactory& factory_;
  LocalNumbers numbers_;
};

}  // namespace hymn::detail
