#include "p2p/shm/shm_port.hpp"

#include <deque>

#include "p2p/shm/mail_message.hpp"

namespace hymn {
namespace {

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
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
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
  Verdict can_carry(const Request& request) const override { return can_move_bytes(request); }
  std::unique_ptr<Transfers> open() override { return std::make_unique<ShmTransfers>(mail_); }
  std::optional<RecvStatus> probe(int peer, MessageTag tag) override {
    const auto found = mail_->probe(peer, mail_tag(tag), PutAside::anything);
    return found ? std::optional(status_of(*found, mail_tag(tag))) : std::nullopt;
  }
  bool can_park() const override { return true; }
  bool park(Operation& operation, long nanoseconds) override {
    return park_on(mail_->channel(), operation, nanoseconds);
  }
  Awaited awaited() const override { return mail_->channel().awaited(); }

 private:
  std::uint64_t add_call(std::uint64_t label) override { return mail_->channel().add_call(label); }

  std::shared_ptr<ShmMail> mail_;
};

}  // namespace

std::shared_ptr<MessagePort> make_shm_port(std::shared_ptr<ShmMail> mail) {
  return std::make_shared<ShmPort>(std::move(mail));
}

}  // namespace hymn
