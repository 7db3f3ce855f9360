#include <numeric>

#include "collectives/mpi/mpi_collective.hpp"

namespace hymn {
namespace {

constexpr MpiBlockFunction scatter{HYMN_MPI_FUNCTION(Scatter, Iscatter),
                                   HYMN_MPI_FUNCTION(Scatterv, Iscatterv)};

class ScatterSteps {
 public:
  static constexpr OpTypes serves = {OpType::scatter};
  // Decided by what every rank knows: the form of the call, and for given counts their sum.
  static Verdict can_run(const Request& request, GroupShape, std::size_t limit) {
    const auto counts = request.inputs.counts();
    switch (request.inputs.layout()) {
      case Layout::equal:
        return fits_one_call(request.outputs.flat().count, limit);
      case Layout::counted:
        return fits_one_call(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), limit);
      case Layout::none:
      case Layout::whole:
      case Layout::list:
        break;
    }
    return wants_one_buffer();
  }

  ScatterSteps(const Call& call, GroupShape shape, MpiChannel& channel, MpiKept& kept)
      : channel_(channel),
        root_(call.peer),
        equal_(call.request->inputs.layout() == Layout::equal),
        input_(call.request->inputs.flat()),
        output_(call.request->outputs.flat()),
        kept_(kept) {
    if (!equal_) keep_counts(kept, call.request->inputs.counts());
    const bool is_root = shape.rank == call.peer;
    // Where nothing is for the root itself its output may begin where others' blocks do, which MPI
    // is not to see.
    const bool in_place =
        is_root && (output_.count == 0 ||
                    call.request->inputs.block(shape.rank, shape.size).data == output_.data);
    target_ = in_place ? MPI_IN_PLACE : output_.data;
    // What it is elsewhere MPI shall not look at.
    if (!is_root) input_.data = nullptr;
  }

  template <class How>
  void call(How how) {
    with_counts(equal_, count(), kept_, [&](auto... blocks) {
      scatter(how, input_.data, blocks..., mpi_type(output_), target_, count(), mpi_type(output_),
              root_, channel_.communicator);
    });
  }
  void finish() {}

 private:
  int count() const { return static_cast<int>(output_.count); }

  MpiChannel& channel_;
  int root_;
  bool equal_;
  ConstBufferView input_;
  BufferView output_;
  void* target_ = nullptr;
  MpiKept& kept_;
};

}  // namespace

std::unique_ptr<Algorithm> make_scatter_mpi(std::shared_ptr<MpiChannel> channel, GroupShape shape) {
  return std::make_unique<MpiAlgorithm<ScatterSteps>>(std::move(channel), shape);
}

}  // namespace hymn
