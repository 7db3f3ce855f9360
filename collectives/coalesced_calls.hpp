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
/// reduction and root, and none writes what another one reads or writes. Each of them has been
/// validated. `root`: the group rank of their root, or -1.
void require_one_kind(std::span<const Request> requests);
void require_one_whole(std::span<const Request* const> requests, GroupShape shape, int root);

/// Throws UsageError where two collectives of one kind differ in dtype, reduction or root.
void require_alike(const Request& one, const Request& other);

/// All buffers of all calls as the lists of one request: what is recorded of them, and checked. It
/// cannot be carried out.
OwnedRequest whole_of(std::span<const Request* const> requests);

/// Whether blocks of given sizes, or lists of them, are among them.
bool have_given_blocks(std::span<const Request* const> requests);

/// Elements of each call, on the side that all members have; empty where members may rightly differ
/// in them.
std::vector<std::uint64_t> counts_of_calls(const Request& whole);

/// The same on members that coalesce the same calls; never 0.
std::uint64_t whole_label(std::span<const Request* const> requests, int root);

}  // namespace hymn
