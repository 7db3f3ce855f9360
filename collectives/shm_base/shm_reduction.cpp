#include "collectives/shm_base/shm_reduction.hpp"

#include <fmt/format.h>

#include <bit>

namespace hymn {

Verdict can_look_at_all(int members) {
  if (members <= most_at_once) return Verdict::yes();
  return Verdict::no(fmt::format("more than {} members", most_at_once));
}

Verdict can_reduce_in_memory(const Request& request) {
  if (request.inputs.dtype() == DataType::opaque || request.op.kind() == ReduceKind::opaque)
    return Verdict::no("unknown MPI type: its layout is known to MPI alone");
  if (request.op.kind() == ReduceKind::custom)
    if (Verdict whole = cuts_whole(request.inputs.element_bytes()); !whole.ok) return whole;
  std::string reason = refusal(request.inputs.dtype(), request.op.kind());
  return reason.empty() ? Verdict::yes() : Verdict::no(std::move(reason));
}

Verdict cuts_whole(std::size_t element_bytes) {
  constexpr std::size_t line = 64;
  if (std::has_single_bit(element_bytes) && element_bytes <= line) return Verdict::yes();
  return Verdict::no(fmt::format(
      "slots are cut at powers of two up to {} bytes, but values have {}", line, element_bytes));
}

Verdict can_fold_in_memory(const Request& request, int members) {
  Verdict few = can_look_at_all(members);
  return !few.ok ? few : can_reduce_in_memory(request);
}

}  // namespace hymn
