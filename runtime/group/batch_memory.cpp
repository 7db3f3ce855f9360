#include "runtime/group/batch_memory.hpp"

#include <fmt/format.h>

#include "collectives/memory_ranges.hpp"
#include "hymn/error.hpp"
#include "p2p/self_message.hpp"

namespace hymn::detail {

// Of elements of a type of MPI's it is not known where they lie. What this rank sends to itself may
// lie where it is received: that is looked at with their pairs.
void require_apart(const WorkParts& parts, const GroupMembers& members) {
  const std::size_t to_itself = parts.all().size();
  MemoryRanges ranges(parts.all().size());
  for (std::size_t i = 0; i < parts.all().size(); ++i) {
    const WorkPart& part = *parts.all()[i];
    const Request& request = part.request.get();
    if (!can_move_bytes(request).ok) continue;
    const std::size_t message = part.call.peer == members.shape().rank ? to_itself : i;
    const bool sends = request.type == OpType::send;
    if (sends)
      ranges.add(request.inputs.flat().data, request.inputs.flat().bytes(), message, false);
    else
      ranges.add(request.outputs.flat().data, request.outputs.flat().bytes(), message, true);
  }
  const auto shared = ranges.find_shared();
  if (!shared) return;
  const auto name = [&](std::size_t message) {
    return message == to_itself ? "one to this rank itself" : fmt::format("#{}", message + 1);
  };
  ErrorContext where = members.context("batch");
  where.remedy = "make one after the other, or give each a buffer of its own";
  throw UsageError(fmt::format("messages {} and {} use the same memory, and one is received there",
                               name(shared->first), name(shared->second)),
                   std::move(where));
}

}  // namespace hymn::detail
