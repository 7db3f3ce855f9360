// Compares what the members of a group are about to call: level "detail" of the checks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/meeting.hpp"
#include "collectives/algorithm.hpp"
#include "recorder/call_facts.hpp"

namespace hymn {

/// What a member tells the others of its call.
struct CheckedCall {
  CallFacts facts{};
  /// Elements of uneven blocks, by member; a single number: the same for every member; empty: this
  /// rank does not say, or all blocks are equal.
  std::vector<std::uint64_t> gives{};
  std::vector<std::uint64_t> takes{};
  /// Of the buffer that every rank has, where all are to be alike; empty: this rank does not say.
  std::vector<std::uint64_t> shape{};
  /// With the shape: in elements, and alike for layouts that are alike.
  std::vector<std::uint64_t> strides{};
  /// Where blocks are buffers of their own, order_of() each, by member as above.
  std::vector<std::uint64_t> given_orders{};
  std::vector<std::uint64_t> taken_orders{};
  /// Of coalesced calls, elements of each buffer; empty: members may differ in them.
  std::vector<std::uint64_t> each{};
  /// In bytes: of each element, where that is a value; of the bundles that the call has given.
  std::vector<std::uint64_t> sizes{};
  friend bool operator==(const CheckedCall&, const CheckedCall&) = default;

  static CheckedCall of(const Call& call, GroupShape shape);
  void pack(Packer& packer) const;
  static CheckedCall unpack(Unpacker& unpacker);
};

/// Why the calls of all members do not fit together: a sentence on blocks or shapes, or empty where
/// `facts` tell enough. nullopt: they fit.
std::optional<std::string> find_misfit(std::span<const CheckedCall> calls,
                                       std::span<const int> ranks);

/// "ranks 0, 2 call A; rank 1 calls B": members that call the same are told together.
std::string tell_calls(std::span<const std::string> words, std::span<const int> ranks);

/// A call in words, and where in the program it is made; empty: that is not known.
std::string with_site(const std::string& call, const std::string& site);
/// As site_text(), for a call of this process.
std::string describe_site(const void* site);

}  // namespace hymn
