// What all collectives over a channel have in common: they wait for their turn, can sleep, and can
// be given up at any point.
#pragma once

#include "collectives/call_label.hpp"
#include "collectives/operation.hpp"
#include "p2p/shm/channel.hpp"

namespace hymn {

/// A step machine in its turn. Nobody else touches this member's buffers, so nothing is left behind
/// when it is given up: what peers read of it lies in the region. (Where others do touch them, see
/// direct.cpp.)
class ShmOperation : public Operation {
 public:
  ShmOperation(ShmChannel& channel, const Call& call)
      : channel_(&channel), called_(call.request), root_(call.peer), label_(call_label(call)) {}

  void start() override {
    ticket_ = channel_->take_ticket();
    label_ = channel_->add_call(label_);
    if (channel_->is_turn(ticket_)) enter();
  }
  bool step() override {
    if (!entered_) {
      if (!channel_->is_turn(ticket_)) {
        channel_->throw_if_aborted();
        return false;
      }
      enter();
    }
    if (advance()) {
      channel_->end_turn(ticket_);
      return true;
    }
    if (++vain_steps_ >= steps_between_polls) [[unlikely]]
      require_same_calls();
    channel_->throw_if_aborted();
    return false;
  }
  bool park(long nanoseconds) override;
  bool can_park() const override { return true; }
  /// Whoever does not know for whom it waits may wait for all.
  Awaited awaited() const override { return channel_->awaited(); }
  bool peers_need_steps() const override { return true; }
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    channel_->abort(reason);
    return nullptr;
  }

 protected:
  ShmChannel& channel() const { return *channel_; }
  /// The first thing in its turn, called once: should show peers as much as it can at once.
  virtual void begin() {}
  /// What this member has called, in this turn and all before: the same on all members, or some
  /// call differs. From begin() on.
  std::uint64_t label() const { return label_; }
  /// Throws OtherCall where a member that has come to this turn has another label. (Beside this,
  /// labels travel with data; but who waits for what nobody sends reads none.)
  void require_same_calls() {
    vain_steps_ = 0;
    const int other = channel_->find_other(ticket_, label_);
    if (other >= 0) throw_for(other);
  }
  [[noreturn]] void throw_for(int member) const {
    throw_other_call(channel_->group_ranks()[static_cast<std::size_t>(member)], *called_, root_);
  }
  /// Does what can be done now; true when this member has finished. Never waits.
  virtual bool advance() = 0;
  /// The same of another operation for the same call, which was never started, in the turn of this
  /// one.
  void begin_other(ShmOperation& other) const {
    other.ticket_ = ticket_;
    other.label_ = label_;
    other.begin();
  }
  static bool advance_other(ShmOperation& other) { return other.advance(); }

 private:
  void enter() {
    entered_ = true;
    channel_->note_core(ticket_);
    channel_->show_call(ticket_, label_);
    begin();
  }

  /// Looking takes from others the lines of what they show of their calls.
  static constexpr unsigned steps_between_polls = 256;
  static constexpr unsigned steps_in_a_park = 31;

  ShmChannel* channel_;
  const Request* called_;
  int root_;
  unsigned vain_steps_ = 0;
  std::uint64_t label_;
  std::uint64_t ticket_ = 0;
  bool entered_ = false;
};

}  // namespace hymn
