#include "collectives/mpi/mpi_collective.hpp"

namespace hymn {
namespace {

class BarrierSteps {
 public:
  static constexpr OpType type = OpType::barrier;
  static Verdict can_run(const Request&, GroupShape, std::size_t) { return Verdict::yes(); }

  BarrierSteps(const Call&, GroupShape, MpiChannel& channel, MpiKept&) : channel_(channel) {}

  void post(MpiRequests& requests) {
    check_mpi(PMPI_Ibarrier(channel_.communicator, requests.add()), "MPI_Ibarrier");
  }
  void block() { check_mpi(PMPI_Barrier(channel_.communicator), "MPI_Barrier"); }
  void finish() {}

 private:
  MpiChannel& channel_;
};

}  // namespace

std::unique_ptr<Algorithm> make_barrier_mpi(std::shared_ptr<MpiChannel> channel, GroupShape shape) {
  return std::make_unique<MpiAlgorithm<BarrierSteps>>(std::move(channel), shape);
}

}  // namespace hymn
