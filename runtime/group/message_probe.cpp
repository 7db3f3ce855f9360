#include "runtime/group/message_probe.hpp"

#include "base/error_context.hpp"
#include "runtime/group/call_title.hpp"

namespace hymn::detail {
namespace {

MessageInfo info_of(const RecvStatus& status) { return {status.source, status.tag, status.count}; }

}  // namespace

MessageInfo MessageProbe::wait(const CallOptions& options, const void* site) const {
  if (options.stream != nullptr) {
    ErrorContext where = group_.members().context(std::string(to_string(OpType::probe)));
    where.remedy = "leave the stream out";
    throw UsageError("a stream is given, but the host alone waits for what a probe finds",
                     std::move(where));
  }
  return info_of(group_.run(request_, options, site));
}

std::optional<MessageInfo> MessageProbe::look() const {
  auto found = group_.works().ending_what_is_given_up([this] { return look_once(); });
  if (!found && !group_.world().engine->is_idle()) group_.world().engine->step_some();
  return found;
}

std::optional<MessageInfo> MessageProbe::look_once() const {
  // Who polls would be warned for ever.
  const bool again = !group_.members().is_member() && group_.has_warned_poller_.exchange(true);
  if (!group_.admit(OpType::probe, again)) return std::nullopt;
  Call call;
  std::shared_ptr<const Request> matched;
  call.request = &group_.checked(request_, matched, call.peer);
  if (!group_.health().is_sound()) group_.require_members(OpType::probe, nullptr);
  call.sequence = group_.record().next_sequence(OpType::probe);
  OperationStorage storage;
  group_.prepare(storage, call);
  Operation& operation = *storage.get();
  operation.start();
  const auto step = [&operation] { return operation.step(); };
  try {
    if (!step()) {
      // Of whoever is gone nothing more comes.
      if (group_.health().is_sound()) return std::nullopt;
      if (auto error = group_.health().hopeless(pending_of(call), step))
        std::rethrow_exception(error);
      return std::nullopt;
    }
  } catch (...) {
    rethrow_with(group_.members().context(std::string(to_string(OpType::probe))));
  }
  if (group_.health().may_take_wrongly(OpType::probe))
    std::rethrow_exception(group_.health().aborted_error(title_of(call)));
  return info_of(group_.members().to_global(operation.status()));
}

}  // namespace hymn::detail
