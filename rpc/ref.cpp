#include <fmt/format.h>

#include "hymn/error.hpp"
#include "hymn/rpc.hpp"
#include "rpc/agent_state.hpp"

namespace hymn::rpc::detail {
namespace {

const RefPtr& need_ref(const RefPtr& ref) {
  if (!ref) throw UsageError("this RemoteRef is empty");
  return ref;
}

AgentPtr agent_of(const RefPtr& ref) {
  auto agent = need_ref(ref)->agent.lock();
  if (agent) agent->require_own_process();
  if (!agent || agent->has_ended())
    throw UsageError("the agent of this reference has ended",
                     {.remedy = "keep the agent for as long as its references are used"});
  return agent;
}

void ask_owner(const RefPtr& ref, MessageKind kind, const PendingPtr& pending, Timeout timeout) {
  Message message;
  message.head.kind = kind;
  message.head.creator = ref->id.rank;
  message.head.ref = ref->id.number;
  agent_of(ref)->call(ref->owner, "the value of a reference", std::move(message), pending, timeout);
}

}  // namespace

RefState::~RefState() {
  const auto still = agent.lock();
  if (still && !still->is_of_parent()) still->refs().release(*this);
}

WorkerInfo owner_of(const RefPtr& ref) { return agent_of(ref)->worker(ref->owner); }
bool is_owned_here(const RefPtr& ref) { return need_ref(ref)->value != nullptr; }

std::shared_ptr<void> local_value_of(const RefPtr& ref, const std::type_info& type,
                                     Timeout timeout) {
  if (!is_owned_here(ref))
    throw UsageError(fmt::format("the value is kept at {}, not here", owner_of(ref).name),
                     {.remedy = "call a function there, or use to_here()"});
  // Who made it when the process was copied may hold its lock for ever.
  if (const auto agent = ref->agent.lock()) agent->require_own_process();
  {
    const WaitScope scope;
    ref->value->made.wait(timeout);
  }
  ref->value->made.value();
  if (*ref->value->value.type != type)
    throw UsageError("the value that is kept has another type than the reference");
  return ref->value->value.value;
}

void fetch_value(const RefPtr& ref, const PendingPtr& pending, Timeout timeout) {
  need_ref(ref);
  ask_owner(ref, MessageKind::fetch, pending, timeout);
}

void wait_made(const RefPtr& ref, const PendingPtr& pending, Timeout timeout) {
  need_ref(ref);
  ask_owner(ref, MessageKind::made, pending, timeout);
}

void put_ref(ObjectWriter& out, const RefPtr& ref, const std::type_info& /*type*/) {
  Packed* const packed = PackScope::current();
  if (packed == nullptr)
    throw UsageError("a RemoteRef travels as an argument or result of a call alone");
  out.put(ref != nullptr, std::uint64_t{packed->refs.size()});
  if (ref) packed->refs.push_back(ref);
}

RefPtr get_ref(ObjectReader& in, const std::type_info& type) {
  bool is_set = false;
  std::uint64_t place = 0;
  in.get(is_set, place);
  if (!is_set) return nullptr;
  Packed* const packed = PackScope::current();
  if (packed == nullptr || place >= packed->refs.size())
    in.fail("a reference that it names is not there");
  const RefPtr& ref = packed->refs[place];
  if (ref->type != type_number(type))
    throw UsageError("a reference is to a value of another type than the function wants");
  return ref;
}

}  // namespace hymn::rpc::detail
