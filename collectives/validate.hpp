// Everything that can be found wrong with a request on one rank, before anything is sent.
#pragma once

#include <memory>
#include <string>

#include "base/private.hpp"
#include "collectives/algorithm.hpp"

namespace hymn {

/// Throws UsageError or UnsupportedError, without context. `root` is the request's peer as a group
/// rank. Whether dtype and reduction go together is the selector's question, where the buffers
/// are that of locate().
void validate(const Request& request, GroupShape shape, int root);

/// Why there is no such reduction, of whatever type: empty where there is one.
HYMN_PRIVATE std::string why_undefined(OpType type, ReduceKind kind);

/// all_gather may be given complex buffers and real views of such: then the input is described as
/// the outputs are, or all of them as their parts where those of a list differ. Null: the request
/// needs no change.
std::shared_ptr<const Request> match_complex_views(const Request& request);

}  // namespace hymn
