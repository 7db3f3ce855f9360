#include "collectives/mpi/mpi_collective.hpp"

namespace hymn {
namespace {

constexpr MpiBlockFunction all_gather{HYMN_MPI_FUNCTION(Allgather, Iallgather),
                                      HYMN_MPI_FUNCTION(Allgatherv, Iallgatherv)};

class AllGatherSteps {
 public:
  static constexpr OpTypes serves = {OpType::all_gather};
  static Verdict can_run(const Request& request, GroupShape, std::size_t limit) {
    switch (request.outputs.layout()) {
      case Layout::equal:
        return fits_one_call(request.inputs.flat().count, limit);
      case Layout::counted:
        return fits_one_call(request.outputs.flat().count, limit);
      case Layout::none:
      case Layout::whole:
      case Layout::list:
        break;
    }
    return wants_one_buffer();
  }

  AllGatherSteps(const Call& call, GroupShape shape, MpiChannel& channel, MpiKept& kept)
      : channel_(channel),
        equal_(call.request->outputs.layout() == Layout::equal),
        input_(call.request->inputs.flat()),
        output_(call.request->outputs.flat()),
        kept_(kept) {
    if (!equal_) keep_counts(kept, call.request->outputs.counts());
    own_ = call.request->outputs.block(shape.rank, shape.size);
    rank_ = shape.rank;
  }

  template <class How>
  void call(How how) {
    bring_into_place(input_, own_, channel_, rank_);
    with_counts(equal_, count(), kept_, [&](auto... blocks) {
      all_gather(how, MPI_IN_PLACE, count(), mpi_type(input_), output_.data, blocks...,
                 mpi_type(output_), channel_.communicator);
    });
  }
  void finish() {}

 private:
  int count() const { return static_cast<int>(input_.count); }

  MpiChannel& channel_;
  bool equal_;
  ConstBufferView input_;
  BufferView output_;
  BufferView own_;  ///< the block of it that is this rank's
  int rank_;
  MpiKept& kept_;
};

}  // namespace

std::unique_ptr<Algorithm> make_all_gather_mpi(std::shared_ptr<MpiChannel> channel,
                                               GroupShape shape) {
  return std::make_unique<MpiAlgorithm<AllGatherSteps>>(std::move(channel), shape);
}

}  // namespace hymn
