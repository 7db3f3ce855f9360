#include "collectives/mpi/mpi_collective.hpp"

namespace hymn {
namespace {

constexpr MpiFunction broadcast = HYMN_MPI_FUNCTION(Bcast, Ibcast);

class BroadcastSteps {
 public:
  static constexpr OpTypes serves = {OpType::broadcast};
  static Verdict can_run(const Request&, GroupShape, std::size_t) { return Verdict::yes(); }

  BroadcastSteps(const Call& call, GroupShape, MpiChannel& channel, MpiKept&)
      : channel_(channel), root_(call.peer), view_(call.request->outputs.flat()) {}

  template <class How>
  void call(How how) {
    for_each_chunk(view_.count, channel_.chunk_limit, [&](std::size_t offset, int count) {
      broadcast(how, at(offset), count, mpi_type(view_), root_, channel_.communicator);
    });
  }
  void finish() {}

 private:
  void* at(std::size_t offset) const {
    return static_cast<std::byte*>(view_.data) + offset * view_.element_bytes();
  }

  MpiChannel& channel_;
  int root_;
  BufferView view_;
};

}  // namespace

std::unique_ptr<Algorithm> make_broadcast_mpi(std::shared_ptr<MpiChannel> channel,
                                              GroupShape shape) {
  return std::make_unique<MpiAlgorithm<BroadcastSteps>>(std::move(channel), shape);
}

}  // namespace hymn
