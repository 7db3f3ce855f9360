// Whether hymn knows enough of a request to carry it out itself.
#pragma once

#include <string>
#include <utility>

#include "collectives/reduce/reducer.hpp"
#include "p2p/verdict.hpp"

namespace hymn {

/// Its types and its operation are known, and where it reduces, that cell of the table is defined.
inline Verdict can_reduce_and_move(const Request& request) {
  if (request.op.kind() == ReduceKind::opaque)
    return Verdict::no("unknown MPI type: its layout is known to MPI alone");
  Verdict known = can_move_bytes(request);
  if (!known.ok || !reduces(request.type)) return known;
  std::string reason = refusal(request.inputs.dtype(), request.op.kind());
  return reason.empty() ? Verdict::yes() : Verdict::no(std::move(reason));
}

}  // namespace hymn
