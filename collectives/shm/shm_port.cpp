#include "collectives/shm/shm_port.hpp"

#include <deque>

#include "collectives/shm/shm_operation.hpp"

namespace hymn {
namespace {

constexpr std::uint64_t user_tag = std::uint64_t{1} << (ring_tag_bits - 1);
std::uint64_t tag_of(MessageTag tag) {
  return tag.packed(ring_tag_bits - 1) | (tag.user ? user_tag : 0);
}

/// Of a message that cannot be taken back: the group is of no more use, but nothing is in flight.
class LostMessage final : public Residue {
 public:
  bool done() override { return true; }
};

std::unique_ptr<Residue> give_up(ShmMail& mail, const std::string& reason) noexcept {
  mail.channel().abort(reason);
  return std::make_unique<LostMessage>();
}

void set(Sending& message, int peer, MessageTag tag, const ConstBufferView& view) {
  message.to = peer;
  message.tag = tag_of(tag);
  message.data = static_cast<const std::byte*>(view.data);
  message.bytes = view.bytes();
}

void set(Receiving& receive, int peer, MessageTag tag, const BufferView& view) {
  receive.from = peer;
  receive.tag = tag_of(tag);
  receive.data = static_cast<std::byte*>(view.data);
  receive.room = view.bytes();
}

RecvStatus status_of(const Receiving& receive, std::size_t element_bytes) {
  return {.source = receive.source,
          .tag = static_cast<int>(receive.tag & (user_tag - 1)),
          .count = receive.bytes / std::max<std::size_t>(element_bytes, 1)};
}

// --- The port ---

class ShmTransfers final : public Transfers {
 public:
  explicit ShmTransfers(std::shared_ptr<ShmMail> mail) : mail_(std::move(mail)) {}
  ~ShmTransfers() override { withdraw(); }

  void send(int peer, MessageTag tag, const ConstBufferView& view) override {
    of_user_ = tag.user;
    set(sends_.emplace_back(), peer, tag, view);
    mail_->start(sends_.back());
  }
  void recv(int peer, MessageTag tag, const BufferView& view) override {
    of_user_ = tag.user;
    set(receives_.emplace_back(), peer, tag, view);
    element_bytes_ = view.element_bytes();
    mail_->start(receives_.back());
  }
  bool test() override {
    bool all = true;
    for (Sending& message : sends_) all = mail_->step(message) && all;
    for (Receiving& receive : receives_) all = mail_->step(receive) && all;
    if (!all) return false;
    if (!receives_.empty()) status_ = status_of(receives_.back(), element_bytes_);
    sends_.clear();
    receives_.clear();
    return true;
  }
  RecvStatus status() const override { return status_; }
  std::unique_ptr<Residue> abandon(const std::string& reason) noexcept override {
    // All members of a collective wait for each other. (First, so that nothing of it is kept.)
    if (!of_user_) mail_->channel().abort(reason);
    return withdraw() ? nullptr : give_up(*mail_, reason);
  }

 private:
  bool withdraw() noexcept {
    bool clean = true;
    for (Receiving& receive : receives_) clean = mail_->withdraw(receive) && clean;
    for (Sending& message : sends_) clean = mail_->withdraw(message) && clean;
    receives_.clear();
    sends_.clear();
    return clean;
  }

  std::shared_ptr<ShmMail> mail_;
  std::deque<Sending> sends_;  // stay where they are
  std::deque<Receiving> receives_;
  std::size_t element_bytes_ = 1;
  bool of_user_ = false;
  RecvStatus status_;
};

class ShmPort final : public MessagePort {
 public:
  explicit ShmPort(std::shared_ptr<ShmMail> mail) : mail_(std::move(mail)) {}
  std::string_view path() const override { return "shm"; }
  Verdict can_carry(const Request& request) const override { return can_move_bytes(request); }
  std::unique_ptr<Transfers> open() override { return std::make_unique<ShmTransfers>(mail_); }
  bool can_rest() const override { return true; }
  bool rest(Operation& operation, long nanoseconds) override {
    return rest_on(mail_->channel(), operation, nanoseconds);
  }
  Awaited awaited() const override { return mail_->channel().awaited(); }

 private:
  std::uint64_t add_call(std::uint64_t label) override { return mail_->channel().add_call(label); }

  std::shared_ptr<ShmMail> mail_;
};

// --- send and recv ---

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
  bool can_rest() const override { return true; }
  bool rest(long nanoseconds) override { return rest_on(mail_.channel(), *this, nanoseconds); }
  std::unique_ptr<Residue> abandon(const std::string& reason) noexcept override {
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
  bool can_rest() const override { return true; }
  bool rest(long nanoseconds) override { return rest_on(mail_.channel(), *this, nanoseconds); }
  RecvStatus status() const override { return status_of(receive_, element_bytes_); }
  std::unique_ptr<Residue> abandon(const std::string& reason) noexcept override {
    return mail_.withdraw(receive_) ? nullptr : give_up(mail_, reason);
  }

 private:
  ShmMail& mail_;
  Receiving receive_;
  std::size_t element_bytes_;
};

class SendRecvRings final : public Algorithm {
 public:
  explicit SendRecvRings(std::shared_ptr<ShmMail> mail) : mail_(std::move(mail)) {}
  std::string_view name() const override { return "send_recv_rings"; }
  std::string_view path() const override { return "shm"; }
  bool serves(OpType type) const override { return type == OpType::send || type == OpType::recv; }
  Verdict can_run(const Request& request) const override { return can_move_bytes(request); }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    if (call.request->type == OpType::send) return storage.emplace<SendOperation>(*mail_, call);
    return storage.emplace<RecvOperation>(*mail_, call);
  }

 private:
  std::shared_ptr<ShmMail> mail_;
};

}  // namespace

std::shared_ptr<MessagePort> make_shm_port(std::shared_ptr<ShmMail> mail) {
  return std::make_shared<ShmPort>(std::move(mail));
}

std::unique_ptr<Algorithm> make_send_recv_rings(std::shared_ptr<ShmMail> mail) {
  return std::make_unique<SendRecvRings>(std::move(mail));
}

}  // namespace hymn
