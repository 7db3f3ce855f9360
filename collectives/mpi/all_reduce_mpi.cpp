#include "collectives/mpi/mpi_reduction.hpp"

namespace hymn {
namespace {

constexpr MpiFunction all_reduce = HYMN_MPI_FUNCTION(Allreduce, Iallreduce);

class AllReduceSteps {
 public:
  static constexpr OpTypes serves = {OpType::all_reduce};
  static Verdict can_run(const Request& request, GroupShape shape, std::size_t) {
    return mpi_can_reduce(request, shape);
  }

  AllReduceSteps(const Call& call, GroupShape shape, MpiChannel& channel, MpiKept& kept)
      : channel_(channel),
        shape_(shape),
        input_(call.request->inputs.flat()),
        output_(call.request->outputs.flat()),
        reduction_(*call.request, call.request->inputs.flat().data, output_.data, output_.count,
                   kept) {}

  template <class How>
  void call(How how) {
    bring_input();
    for_each_chunk(output_.count, channel_.chunk_limit, [&](std::size_t offset, int count) {
      all_reduce(how, MPI_IN_PLACE, target(offset), count, reduction_.type(), reduction_.op(),
                 channel_.communicator);
    });
  }
  void finish() {
    reduction_.finish(output_.data, reduction_.target(), output_.count, shape_.size);
  }

 private:
  void* target(std::size_t offset) const {
    return static_cast<std::byte*>(reduction_.target()) + offset * reduction_.element_bytes();
  }
  /// Accumulators are there already.
  void bring_input() {
    if (reduction_.source() != reduction_.target())
      bring_into_place(input_, output_, channel_, shape_.rank);
  }

  MpiChannel& channel_;
  GroupShape shape_;
  ConstBufferView input_;
  BufferView output_;
  MpiReduction reduction_;
};

}  // namespace

std::unique_ptr<Algorithm> make_all_reduce_mpi(std::shared_ptr<MpiChannel> channel,
                                               GroupShape shape) {
  return std::make_unique<MpiAlgorithm<AllReduceSteps>>(std::move(channel), shape);
}

}  // namespace hymn
