#include "collectives/mpi/mpi_collective.hpp"

namespace hymn {
namespace {

constexpr MpiFunction barrier = HYMN_MPI_FUNCTION(Barrier, Ibarrier);

class BarrierSteps {
 public:
  static constexpr OpTypes serves = {OpType::barrier};
  static Verdict can_run(const Request&, GroupShape, std::size_t) { return Verdict::yes(); }

  BarrierSteps(const Call&, GroupShape, MpiChannel& channel, MpiKept&) : channel_(channel) {}

  template <class How>
  void call(How how) {
    barrier(how, channel_.communicator);
  }
  void finish() {}

 private:
  MpiChannel& channel_;
};

}  // namespace

std::unique_ptr<Algorithm> make_barrier_mpi(std::shared_ptr<MpiChannel> channel, GroupShape shape) {
  return std::make_unique<MpiAlgorithm<BarrierSteps>>(std::move(channel), shape);
}

}  // namespace hymn
