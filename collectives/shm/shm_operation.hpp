// What all collectives over a channel have in common: they wait for their turn, can sleep, and can
// be given up at any point.
#pragma once

#include "collectives/operation.hpp"
#include "collectives/shm/channel.hpp"

namespace hymn {

/// Operation::rest() for an operation that moves by what peers publish on the channel.
bool rest_on(ShmChannel& channel, Operation& operation, long nanoseconds);

/// A step machine in its turn. Nobody else touches this member's buffers, so nothing is left behind
/// when it is given up: what peers read of it lies in the region. (Where others do touch them, see
/// direct.cpp.)
class ShmOperation : public Operation {
 public:
  explicit ShmOperation(ShmChannel& channel) : channel_(&channel) {}

  void start() override {
    ticket_ = channel_->take_ticket();
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
    channel_->throw_if_aborted();
    return false;
  }
  bool rest(long nanoseconds) override;
  bool can_rest() const override { return true; }
  bool peers_need_steps() const override { return true; }
  std::unique_ptr<Residue> abandon(const std::string& reason) noexcept override {
    channel_->abort(reason);
    return nullptr;
  }

 protected:
  ShmChannel& channel() const { return *channel_; }
  /// Whether of the members from `first` on all that share this one's core have come.
  template <class HasCome>
  bool all_beside_have_come(int first, HasCome has_come) const {
    for (int member = first; member < channel_->size(); ++member)
      if (member != channel_->rank() && channel_->is_beside(member) && !has_come(member))
        return false;
    return true;
  }
  /// The first thing in its turn, called once: should show peers as much as it can at once.
  virtual void begin() {}
  /// Does what can be done now; true when this member has finished. Never waits.
  virtual bool advance() = 0;
  /// The same of another operation, which was never started, in the turn of this one.
  static void begin_other(ShmOperation& other) { other.begin(); }
  static bool advance_other(ShmOperation& other) { return other.advance(); }

 private:
  void enter() {
    entered_ = true;
    channel_->note_core();
    begin();
  }

  ShmChannel* channel_;
  std::uint64_t ticket_ = 0;
  bool entered_ = false;
};

}  // namespace hymn
