#include <numeric>

#include "collectives/mpi/mpi_collective.hpp"

namespace hymn {
namespace {

constexpr MpiBlockFunction gather{HYMN_MPI_FUNCTION(Gather, Igather),
                                  HYMN_MPI_FUNCTION(Gatherv, Igatherv)};

class GatherSteps {
 public:
  static constexpr OpTypes serves = {OpType::gather};
  // Decided by what every rank knows: the form of the call, and for given counts their sum.
  static Verdict can_run(const Request& request, GroupShape, std::size_t limit) {
    const auto counts = request.outputs.counts();
    switch (request.outputs.layout()) {
      case Layout::equal:
        return fits_one_call(request.inputs.flat().count, limit);
      case Layout::counted:
        return fits_one_call(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), limit);
      case Layout::none:
      case Layout::whole:
      case Layout::list:
        break;
    }
    return wants_one_buffer();
  }

  GatherSteps(const Call& call, GroupShape shape, MpiChannel& channel, MpiKept& kept)
      : channel_(channel),
        root_(call.peer),
        is_root_(shape.rank == call.peer),
        equal_(call.request->outputs.layout() == Layout::equal),
        input_(call.request->inputs.flat()),
        output_(call.request->outputs.flat()),
        kept_(kept) {
    if (!equal_) keep_counts(kept, call.request->outputs.counts());
    if (!is_root_) output_.data = nullptr;  // whatever it is there, MPI shall not look at it
    const bool in_place = is_root_ && input_.count != 0 &&
                          call.request->outputs.block(shape.rank, shape.size).data == input_.data;
    source_ = in_place ? MPI_IN_PLACE : apart_from(output_.data, input_.data);
  }

  template <class How>
  void call(How how) {
    with_counts(equal_, count(), kept_, [&](auto... blocks) {
      gather(how, source_, count(), mpi_type(input_), output_.data, blocks..., mpi_type(input_),
             root_, channel_.communicator);
    });
  }
  void finish() {}

 private:
  int count() const { return static_cast<int>(input_.count); }

  MpiChannel& channel_;
  int root_;
  bool is_root_;
  bool equal_;
  ConstBufferView input_;
  BufferView output_;
  const void* source_ = nullptr;
  MpiKept& kept_;
};

}  // namespace

std::unique_ptr<Algorithm> make_gather_mpi(std::shared_ptr<MpiChannel> channel, GroupShape shape) {
  return std::make_unique<MpiAlgorithm<GatherSteps>>(std::move(channel), shape);
}

}  // namespace hymn
