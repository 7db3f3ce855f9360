#include "collectives/shm/direct.hpp"

#include <optional>
#include <stdexcept>

#include "collectives/shm/direct_part.hpp"
#include "collectives/shm/step_budget.hpp"
#include "collectives/shm_base/shm_operation.hpp"

namespace hymn {
namespace {

/// Below this, copies cost less than to agree on doing without.
constexpr std::size_t least_bytes = std::size_t{64} << 10;

/// The members meet, each does its part on all members' memory, and all wait for the last. Where
/// some member's buffers cannot be reached the staged operation does it, in the same turn.
class DirectOperation final : public ShmOperation {
 public:
  DirectOperation(DirectForms& forms, Algorithm& staged, const Call& call)
      : ShmOperation(*forms.channel, call), forms_(forms), algorithm_(staged), call_(call) {
    const Request& request = *call.request;
    // Refuses a factor that the type cannot hold, while nothing has started.
    if (reduces(request.type))
      reducer_ = reducer_for(request.inputs.dtype(), request.op, forms.reproducibility);
  }

  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    std::unique_ptr<AbandonedOperation> abandoned = ShmOperation::abandon(reason);
    if (shows_) give_up();
    return abandoned;
  }

 private:
  enum class State : unsigned char { waiting, showing, mapping, working, leaving, staged };

  void begin() override {
    mine_ = direct_call(call_, me());
    mine_.label = label();
    if (!board().meets(mine_))
      stage();
    else
      show();
  }

  // Others may still read what this member showed last: where that went the staged way, it ends
  // without a last meeting.
  void show() {
    if (!board().all_have_left()) return;
    shows_ = mine_.input.token != 0 || mine_.output.token != 0;
    board().show(mine_);
    state_ = State::showing;
  }

  bool advance() override {
    if (state_ == State::waiting) show();
    if (state_ == State::waiting) return false;
    if (state_ == State::showing) {
      if (!board().all_have_shown()) return false;
      check_calls();
      if (!board().all_can()) {
        board().leave();
        stage();
      } else if (board().all_know()) {
        state_ = State::working;
      } else {
        board().map();
        state_ = State::mapping;
      }
    }
    if (state_ == State::mapping) {
      if (!board().all_have_mapped()) return false;
      if (board().went_well())
        state_ = State::working;
      else
        stage();
    }
    if (state_ == State::working) {
      if (!do_direct_part(board(), call_, me(), channel().size(), reducer_ ? &*reducer_ : nullptr,
                          pieces_done_))
        return StepBudget::go_on_later(channel());
      board().leave();
      state_ = State::leaving;
    }
    if (state_ == State::staged ? !advance_other(*staged_) : !board().all_have_left()) return false;
    shows_ = false;
    if (state_ == State::leaving || everybody_hears_everybody(*call_.request, channel().size()))
      board().end_round();
    return true;
  }

  // From here on nobody touches what has been shown.
  void stage() {
    shows_ = false;
    state_ = State::staged;
    staged_ = dynamic_cast<ShmOperation*>(&algorithm_.prepare(forms_.staged, call_));
    if (staged_ == nullptr) throw std::logic_error("a staged form is not a ShmOperation");
    begin_other(*staged_);
  }

  void give_up() noexcept {
    if (mine_.output.token == 0) return board().give_up(nullptr, 0);
    const BufferView& output = call_.request->outputs.flat();
    board().give_up(static_cast<std::byte*>(output.data), output.bytes());
  }

  void check_calls() const {
    for (int member = 0; member < channel().size(); ++member)
      if (board().shown(member).label != mine_.label) throw_for(member);
  }

  DirectBoard& board() const { return forms_.board; }
  int me() const { return channel().rank(); }

  DirectForms& forms_;
  Algorithm& algorithm_;
  Call call_;
  DirectCall mine_{};  ///< what this member shows
  std::optional<Reducer> reducer_;
  ShmOperation* staged_ = nullptr;
  State state_ = State::waiting;
  bool shows_ = false;  ///< others may read this member's input, or write to its output
  std::size_t pieces_done_ = 0;
};

class DirectOr final : public Algorithm {
 public:
  DirectOr(std::shared_ptr<DirectForms> forms, std::unique_ptr<Algorithm> staged)
      : Algorithm(staged->model(), staged->serves()),
        forms_(std::move(forms)),
        staged_(std::move(staged)) {}

  Verdict can_run(const Request& request) const override { return staged_->can_run(request); }
  Reproducibility promises(const Request& request) const override {
    return staged_->promises(request);
  }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    if (direct_bytes(*call.request) < least_bytes || forms_->channel->size() > most_at_once)
      return staged_->prepare(storage, call);
    return storage.emplace<DirectOperation>(*forms_, *staged_, call);
  }

 private:
  std::shared_ptr<DirectForms> forms_;
  std::unique_ptr<Algorithm> staged_;
};

}  // namespace

DirectForms::DirectForms(const ShmGroup& group)
    : channel(group.channel),
      board(group.channel, group.areas.direct),
      reproducibility(group.shape.reproducibility) {}

std::unique_ptr<Algorithm> direct_or(std::shared_ptr<DirectForms> forms,
                                     std::unique_ptr<Algorithm> staged) {
  return std::make_unique<DirectOr>(std::move(forms), std::move(staged));
}

}  // namespace hymn
