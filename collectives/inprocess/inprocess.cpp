#include "collectives/inprocess/inprocess.hpp"

#include "collectives/inprocess/inprocess_model.hpp"
#include "collectives/inprocess/parts.hpp"
#include "collectives/reduce/can_reduce.hpp"

namespace hymn {
namespace {

class InProcessOperation final : public Operation {
 public:
  InProcessOperation(ThreadBoard& board, std::uint64_t& meetings, GroupShape shape,
                     const Call& call)
      : shape_(shape), call_(call), meetings_(meetings), visit_(board, shape.rank, 0, &call_) {}

  // Meetings are counted apart from the group's calls, of which some may take another path.
  void start() override {
    visit_.set_number(++meetings_);
    visit_.try_arrive();
  }

  bool step() override {
    if (!did_part_) {
      if (!visit_.try_arrive()) return false;
      do_part();
    }
    return visit_.try_leave();
  }

  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override {
    visit_.abandon(reason);
    return nullptr;
  }

 private:
  void do_part() {
    visit_.begin_part();
    did_part_ = true;
    try {
      const PeerCalls peers(visit_, shape_.size);
      check_agreement(peers, shape_, call_);
      inprocess_part(peers, shape_, call_);
    } catch (...) {
      visit_.fail_part();
      throw;
    }
    visit_.end_part();
  }

  GroupShape shape_;
  Call call_;
  std::uint64_t& meetings_;
  ThreadBoard::Visit visit_;
  bool did_part_ = false;
};

class InProcess final : public Algorithm {
 public:
  InProcess(std::shared_ptr<ThreadBoard> board, GroupShape shape)
      : Algorithm(inprocess_model), board_(std::move(board)), shape_(shape) {}

  Verdict can_run(const Request& request) const override { return can_reduce_and_move(request); }
  /// In rank order.
  Reproducibility promises(const Request&) const override { return Reproducibility::size; }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    // Refuses a factor that the type cannot hold, while nothing has started.
    if (reduces(call.request->type))
      reducer_for(call.request->inputs.dtype(), call.request->op, shape_.reproducibility);
    return storage.emplace<InProcessOperation>(*board_, meetings_, shape_, call);
  }

 private:
  std::shared_ptr<ThreadBoard> board_;
  GroupShape shape_;
  std::uint64_t meetings_ = 0;  // that this member has come to; collectives start one by one
};

}  // namespace

void add_inprocess_algorithms(Algorithms& algorithms, const std::shared_ptr<ThreadBoard>& board,
                              GroupShape shape) {
  algorithms.push_back(std::make_unique<InProcess>(board, shape));
}

}  // namespace hymn
