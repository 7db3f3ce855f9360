// send, recv and probe over the mail of a channel, without touching the heap.

#include <utility>

#include "collectives/shm/shm_algorithms.hpp"
#include "collectives/shm/shm_models.hpp"
#include "p2p/shm/mail_message.hpp"

namespace hymn {
namespace {

class SendOperation final : public Operation {
 public:
  SendOperation(ShmMail& mail, const Call& call) : mail_(mail) {
    set(message_, call.peer, MessageTag::of_user(call.request->tag), call.request->inputs.flat());
  }
  void start() override {
    mail_.channel().note_core(mail_.channel().count_message());
    mail_.start(message_);
  }
  bool step() override { return mail_.step(message_); }
  Awaited awaited() const override {
    mail_.channel().note_core_now();
    return mail_.channel().where_is(message_.to);
  }
  bool can_park() const override { return true; }
  bool park(long nanoseconds) override { return park_on(mail_.channel(), *this, nanoseconds); }
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    return mail_.withdraw(message_) ? nullptr : give_up(mail_, reason);
  }

 private:
  ShmMail& mail_;
  Sending message_;
};

class RecvOperation final : public Operation {
 public:
  RecvOperation(ShmMail& mail, const Call& call)
      : mail_(mail), element_bytes_(call.request->outputs.flat().element_bytes()) {
    set(receive_, call.peer, MessageTag::of_user(call.request->tag), call.request->outputs.flat());
  }
  void start() override {
    mail_.channel().note_core(mail_.channel().count_message());
    mail_.start(receive_);
  }
  bool step() override { return mail_.step(receive_); }
  Awaited awaited() const override {
    if (receive_.from == any_source) return mail_.channel().awaited();
    mail_.channel().note_core_now();
    return mail_.channel().where_is(receive_.from);
  }
  bool can_park() const override { return true; }
  bool park(long nanoseconds) override { return park_on(mail_.channel(), *this, nanoseconds); }
  RecvStatus status() const override { return status_of(receive_, element_bytes_); }
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    return mail_.withdraw(receive_) ? nullptr : give_up(mail_, reason);
  }

 private:
  ShmMail& mail_;
  Receiving receive_;
  std::size_t element_bytes_;
};

/// Sends nothing, and takes nothing: there is nothing to give up.
class RingProbeOperation final : public Operation {
 public:
  RingProbeOperation(ShmMail& mail, const Call& call)
      : mail_(mail), from_(call.peer), tag_(mail_tag(MessageTag::of_user(call.request->tag))) {}
  void start() override { mail_.channel().note_core(mail_.channel().count_message()); }
  bool step() override {
    // Who only looks takes one step, and may look again for ever.
    const auto how = std::exchange(waits_, true) ? PutAside::anything : PutAside::some;
    found_ = mail_.probe(from_, tag_, how);
    return found_.has_value();
  }
  Awaited awaited() const override {
    if (from_ == any_source) return mail_.channel().awaited();
    mail_.channel().note_core_now();
    return mail_.channel().where_is(from_);
  }
  bool can_park() const override { return true; }
  bool park(long nanoseconds) override { return park_on(mail_.channel(), *this, nanoseconds); }
  RecvStatus status() const override { return found_ ? status_of(*found_, tag_) : RecvStatus{}; }
  std::unique_ptr<AbandonedOperation> abandon(const std::string&) noexcept override {
    return nullptr;
  }

 private:
  ShmMail& mail_;
  int from_;
  std::uint64_t tag_;
  bool waits_ = false;
  std::optional<MailNotice> found_;
};

class SendRecvRings final : public Algorithm {
 public:
  explicit SendRecvRings(std::shared_ptr<ShmMail> mail)
      : Algorithm(shm_models::rings, all_of_messages), mail_(std::move(mail)) {}
  Verdict can_run(const Request& request) const override { return can_move_bytes(request); }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    if (call.request->type == OpType::probe)
      return storage.emplace<RingProbeOperation>(*mail_, call);
    if (call.request->type == OpType::send) return storage.emplace<SendOperation>(*mail_, call);
    return storage.emplace<RecvOperation>(*mail_, call);
  }

 private:
  std::shared_ptr<ShmMail> mail_;
};

}  // namespace

std::unique_ptr<Algorithm> make_send_recv_rings(std::shared_ptr<ShmMail> mail) {
  return std::make_unique<SendRecvRings>(std::move(mail));
}

}  // namespace hymn
