// Several collectives that are made as one: what they must have in common, and what they are as a
// whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/algorithm.hpp"
#include "collectives/owned_request.hpp"

namespace hymn {

/// Throws UsageError unless there are some, all of them are collectives of one kind, dtype,
/// reduction, root and kind of memory, and none writes what another one reads or writes. Each of
/// them has been validated. `root`: the group rank of their root, or -1.
void require_one_kind(std::span<const Request> requests);
void require_one_whole(std::span<const Request* const> requests, GroupShape shape, int root);

/// Throws UsageError where two collectives of one kind differ in dtype, reduction or root.
void require_alike(const Request& one, const Request& other);

/// All buffers of all calls as the lists of one request: what is recorded of them, and checked. It
/// cannot be carried out.
OwnedRequest whole_of(std::span<const Request* const> requests);

/// Whether blocks of given sizes, or lists of them, are among them: the same on all members.
bool have_given_blocks(std::span<const Request* const> requests);

/// Whether members may rightly have other counts than the others in coalesced calls, of which some
/// are `in_given_blocks` or not.
constexpr bool counts_differ(OpType type, bool in_given_blocks) {
  const bool apart = has_root(type) || (has_input_blocks(type) && has_output_blocks(type));
  return in_given_blocks && has_blocks(type) && apart;
}
/// The side of coalesced calls whose counts all members know alike.
constexpr bool all_know_outputs(OpType type) {
  return all_have_outputs(type) || (has_output_blocks(type) && !has_root(type));
}

/// Elements of each call, on that side; empty where members may rightly differ in them.
std::vector<std::uint64_t> counts_of_calls(const Call& whole);

/// The same on members that coalesce the same calls; never 0.
std::uint64_t whole_label(std::span<const Request* const> requests, int root);

}  // namespace hymn
