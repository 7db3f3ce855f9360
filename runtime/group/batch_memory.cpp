#include "runtime/group/batch_memory.hpp"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "collectives/memory_ranges.hpp"
#include "hymn/error.hpp"
#include "p2p/self_message.hpp"

namespace hymn::detail {
namespace {

/// What this rank sends to itself and where it receives that count as one message, for both may
/// lie at the same place. As prepare_self_messages() pairs them: those of a tag in their order.
class SelfPairs {
 public:
  /// The number of the first of the two.
  std::size_t pair_of(const Request& request, std::size_t message) {
    auto& [sends, receives] = sides_[request.tag];
    const bool is_send = request.type == OpType::send;
    Side& own = is_send ? sends : receives;
    const Side& other = is_send ? receives : sends;
    own.push_back(message);
    const std::size_t place = own.size() - 1;
    return place < other.size() ? other[place] : message;
  }

 private:
  using Side = std::vector<std::size_t>;
  std::map<int, std::pair<Side, Side>> sides_;  // by tag: sends, and receives
};

}  // namespace

// Of elements of a type of MPI's it is not known where they lie.
void require_apart(const WorkParts& parts, const GroupMembers& members) {
  SelfPairs pairs;
  MemoryRanges ranges(parts.all().size());
  std::size_t next = 0;
  for (const WorkPart* const part : parts.all()) {
    const std::size_t i = next++;
    const Request& request = part->request.get();
    if (!can_move_bytes(request).ok) continue;
    const bool is_own = part->call.peer == members.shape().rank;
    const std::size_t message = is_own ? pairs.pair_of(request, i) : i;
    const bool sends = request.type == OpType::send;
    if (sends)
      ranges.add(request.inputs.flat().data, request.inputs.flat().bytes(), message, false);
    else
      ranges.add(request.outputs.flat().data, request.outputs.flat().bytes(), message, true);
  }
  const auto shared = ranges.find_shared();
  if (!shared) return;
  ErrorContext where = members.context("batch");
  where.remedy = "make one after the other, or give each a buffer of its own";
  throw UsageError(
      fmt::format("messages #{} and #{} use the same memory, and one is received there",
                  shared->first + 1, shared->second + 1),
      std::move(where));
}

}  // namespace hymn::detail
