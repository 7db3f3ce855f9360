#include "collectives/mpi/mpi_reduction.hpp"

namespace hymn {
namespace {

constexpr MpiFunction reduce = HYMN_MPI_FUNCTION(Reduce, Ireduce);

class ReduceSteps {
 public:
  static constexpr OpTypes serves = {OpType::reduce};
  static Verdict can_run(const Request& request, GroupShape shape, std::size_t) {
    return mpi_can_reduce(request, shape);
  }

  ReduceSteps(const Call& call, GroupShape shape, MpiChannel& channel, MpiKept& kept)
      : channel_(channel),
        size_(shape.size),
        root_(call.peer),
        output_(shape.rank == call.peer ? call.request->outputs.flat().data : nullptr),
        input_(call.request->inputs.flat().data),
        count_(call.request->inputs.flat().count),
        reduction_(*call.request, input_, output_, count_, channel, kept) {}

  template <class How>
  void call(How how) {
    reduction_.load(input_, count_);
    for_each_chunk(count_, channel_.chunk_limit, [&](std::size_t offset, int count) {
      reduce(how, source(offset), target(offset), count, reduction_.type(), reduction_.op(), root_,
             channel_.communicator);
    });
  }
  void finish() { reduction_.finish(output_, reduction_.target(), count_, size_); }

 private:
  void* target(std::size_t offset) const {
    if (output_ == nullptr) return nullptr;
    return static_cast<std::byte*>(reduction_.target()) + offset * reduction_.element_bytes();
  }
  const void* source(std::size_t offset) const {
    // Of a reduce it is given on the root alone, which so may choose.
    if (output_ != nullptr && reduction_.source() == reduction_.target()) return MPI_IN_PLACE;
    return static_cast<const std::byte*>(reduction_.source()) + offset * reduction_.element_bytes();
  }

  MpiChannel& channel_;
  int size_;
  int root_;
  void* output_;
  const void* input_;
  std::size_t count_;
  MpiReduction reduction_;
};

}  // namespace

std::unique_ptr<Algorithm> make_reduce_mpi(std::shared_ptr<MpiChannel> channel, GroupShape shape) {
  return std::make_unique<MpiAlgorithm<ReduceSteps>>(std::move(channel), shape);
}

}  // namespace hymn
