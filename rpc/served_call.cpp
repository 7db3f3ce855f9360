#include "rpc/served_call.hpp"

#include <fmt/format.h>

#include <utility>

#include "hymn/error.hpp"
#include "rpc/errors.hpp"

namespace hymn::rpc::detail {

ServedCall::ServedCall(AgentPtr agent, int caller, const MessageHead& head, std::string name)
    : agent_(std::move(agent)),
      caller_(caller),
      call_(head.call),
      flags_(head.flags),
      ref_{caller, head.ref},
      limit_(head.limit_ns < 0 ? Deadline::never() : Deadline::after(Duration(head.limit_ns))),
      name_(std::move(name)),
      context_(head.context) {
  if (keeps_value()) kept_ = agent_->refs().expect(ref_, caller);
}

ServedCall::~ServedCall() {
  if (!is_answered_)
    fail(std::make_exception_ptr(AbortedError(
        fmt::format("{} has ended without an answer", name_),
        {.remedy = "let the function return, throw, or keep the promise of its Future"})));
}

RemoteOrigin ServedCall::origin() const {
  return {agent_->rank(), agent_->worker(agent_->rank()).name, name_, site_};
}

void ServedCall::run(Packed& arguments, std::uint64_t type) {
  const AgentScope scope(agent_);
  try {
    if (limit_.expired(std::chrono::steady_clock::now()))
      throw TimeoutError("the time of the call had passed before it began", Duration{0});
    const auto function = Registry::instance().find(name_);
    if (!function)
      throw UsageError(fmt::format("there is no function {} at {}", name_, origin().worker()),
                       {.remedy = "register it there before it is called"});
    site_ = function->site;
    if (function->type != type)
      throw UsageError(fmt::format("{} is {} there, and is called with other types", name_,
                                   function->signature.text()),
                       {.remedy = "call it with the types that it is registered with"});
    function->handler(arguments, AnswerPtr(shared_from_this()));
  } catch (...) {
    fail(std::current_exception());
  }
}

void ServedCall::give(Packed result) {
  if (is_answered_.exchange(true)) return;
  send(MessageKind::response, std::move(result));
}

void ServedCall::keep(StoredValue result) {
  if (is_answered_.exchange(true)) return;
  kept_->value = std::move(result);
  kept_->made.set_value({});
  send(MessageKind::response, pack(Nothing{}));
}

void ServedCall::fail(std::exception_ptr error) {
  if (is_answered_.exchange(true)) return;
  Packed packed = pack_error(error, origin());
  if (kept_) {
    // Whoever asks for the value later hears which call should have made it.
    Packed told = pack_error(error, origin());
    kept_->made.set_error(unpack_error(told));
  }
  send(MessageKind::failure, std::move(packed));
}

void ServedCall::send(MessageKind kind, Packed packed) {
  if (agent_->is_of_parent()) return;
  Message message;
  message.head.kind = kind;
  message.head.call = call_;
  message.packed = std::move(packed);
  try {
    // An error is small, and the least that a caller can be told.
    if (kind == MessageKind::response) {
      require_sendable(message, agent_->most_bytes(caller_));
      agent_->require_reading(caller_);
    }
  } catch (const Error& error) {
    message.head.kind = MessageKind::failure;
    message.packed = pack_error(
        error.kind() == ErrorKind::resource ? std::current_exception() : unsendable(error),
        origin());
  }
  kept_.reset();
  agent_->answer(caller_, std::move(message));
}

std::exception_ptr ServedCall::unsendable(const Error& error) const {
  return std::make_exception_ptr(
      UsageError(fmt::format("the result of {} cannot be sent: {}", name_, error.problem()),
                 {.remedy = error.context().remedy}));
}

void ServedCall::give_when_made(const RefPtr& kept, bool is_copied) {
  auto self = std::static_pointer_cast<ServedCall>(shared_from_this());
  const auto context = agent_->contexts().find(context_);
  kept->value->made.on_ready([self, kept, is_copied, context] {
    const auto& value = kept->value;
    // The copy has gradients in the context of who asks for it.
    const ContextScope scope(context);
    try {
      value->made.value();
      if (!is_copied) {
        self->give(pack(Nothing{}));
      } else if (value->value.pack) {
        self->give(value->value.pack());
      } else {
        throw UsageError("the value is of a type that cannot be sent",
                         {.remedy = "use it where it lives, by calls"});
      }
    } catch (...) {
      self->fail(std::current_exception());
    }
  });
}

}  // namespace hymn::rpc::detail
