#include "runtime/group/self_messages.hpp"

#include <fmt/format.h>

#include <deque>
#include <map>

#include "base/error_context.hpp"
#include "collectives/validate_view.hpp"
#include "p2p/self_message.hpp"

namespace hymn::detail {
namespace {

using PartsByTag = std::map<int, std::deque<WorkPart*>>;

[[noreturn]] void refuse_alone(const Request& request) {
  const bool sends = request.type == OpType::send;
  throw UsageError(
      fmt::format("the batch has a {} this rank itself with tag {}, but no {} for it",
                  sends ? "send to" : "recv from", request.tag, sends ? "recv" : "send"),
      {.remedy = "give both in one batch, with the same tag; a recv from any source takes none"});
}

void require_copy(const Request& send, const Request& recv) {
  for (const Request* request : {&send, &recv}) {
    if (request->memory() == MemoryKind::device)
      throw UnsupportedError("what a rank sends to itself is copied by the host",
                             {.remedy = "copy it on a stream of the GPU instead"});
    if (const Verdict verdict = can_move_bytes(*request); !verdict.ok)
      throw UnsupportedError(verdict.reason, {.remedy = "copy the buffer instead"});
  }
  const ConstBufferView& in = send.inputs.flat();
  const BufferView& out = recv.outputs.flat();
  if (in.bytes() > out.bytes())
    throw UsageError(fmt::format("this rank sends {} bytes to its own buffer of {} bytes",
                                 in.bytes(), out.bytes()),
                     {.remedy = "give the same count and dtype on both sides"});
  if (in.data != out.data && overlap(in, ConstBufferView(out))) refuse_overlap();
}

void join(WorkPart& send, WorkPart& recv) {
  const Request& given = send.request.get();
  const Request& wanted = recv.request.get();
  require_copy(given, wanted);
  const ConstBufferView& in = given.inputs.flat();
  const BufferView& out = wanted.outputs.flat();
  const std::size_t element = std::max<std::size_t>(out.element_bytes(), 1);
  send.storage.emplace<SelfSend>();
  recv.storage.emplace<SelfRecv>(
      in, out,
      RecvStatus{.source = recv.call.peer, .tag = wanted.tag, .count = in.bytes() / element});
}

/// Those of one type that concern the own rank, in their order.
template <class Each>
void for_own(const WorkParts& parts, OpType type, const GroupMembers& members, Each&& each) {
  for (WorkPart* const part : parts.all()) {
    const Request& request = part->request.get();
    if (request.type != type || part->call.peer != members.shape().rank) continue;
    try {
      each(*part, request);
    } catch (...) {
      rethrow_with(members.context(std::string(to_string(type))));
    }
  }
}

}  // namespace

void prepare_self_messages(const WorkParts& parts, const GroupMembers& members) {
  PartsByTag sends;
  for_own(parts, OpType::send, members,
          [&](WorkPart& part, const Request& request) { sends[request.tag].push_back(&part); });
  for_own(parts, OpType::recv, members, [&](WorkPart& part, const Request& request) {
    std::deque<WorkPart*>& waiting = sends[request.tag];
    if (waiting.empty()) refuse_alone(request);
    join(*waiting.front(), part);
    waiting.pop_front();
  });
  for_own(parts, OpType::send, members, [&](WorkPart& part, const Request& request) {
    if (part.storage.get() == nullptr) refuse_alone(request);
  });
}

}  // namespace hymn::detail
