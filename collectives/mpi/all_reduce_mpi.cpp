// all_reduce, scan, exscan: to MPI they are alike.

#include "collectives/mpi/mpi_reduction.hpp"

namespace hymn {
namespace {

constexpr MpiFunction all_reduce = HYMN_MPI_FUNCTION(Allreduce, Iallreduce);
constexpr MpiFunction scan = HYMN_MPI_FUNCTION(Scan, Iscan);
constexpr MpiFunction exscan = HYMN_MPI_FUNCTION(Exscan, Iexscan);

constexpr const auto& function_for(OpType type) {
  if (type == OpType::scan) return scan;
  return type == OpType::exscan ? exscan : all_reduce;
}

/// The first rank of an exscan has none.
void* result_of(const Call& call, GroupShape shape) {
  const bool has_result = call.request->type != OpType::exscan || shape.rank != 0;
  return has_result ? call.request->outputs.flat().data : nullptr;
}

/// Of one rank alone MPI makes a copy, but a minimum of one NaN is the canonical one.
bool is_mere_copy(const Request& request, GroupShape shape) {
  const int alone = request.type == OpType::scan ? 0 : 1;
  return is_prefix(request.type) && shape.rank == alone &&
         traits_of(request.op.kind()).family == ReduceFamily::order;
}

class AllReduceSteps {
 public:
  static constexpr OpTypes serves = {OpType::all_reduce, OpType::scan, OpType::exscan};
  static Verdict can_run(const Request& request, GroupShape shape, std::size_t) {
    return mpi_can_reduce(request, shape);
  }

  AllReduceSteps(const Call& call, GroupShape shape, MpiChannel& channel, MpiKept& kept)
      : channel_(channel),
        shape_(shape),
        function_(function_for(call.request->type)),
        input_(call.request->inputs.flat()),
        output_(call.request->outputs.flat()),
        result_(result_of(call, shape)),
        kind_(call.request->op.kind()),
        is_mere_copy_(is_mere_copy(*call.request, shape)),
        reduction_(*call.request, input_.data, result_, input_.count, channel, kept) {}

  template <class How>
  void call(How how) {
    reduction_.load(input_.data, input_.count);
    bring_input();
    for_each_chunk(output_.count, channel_.chunk_limit, [&](std::size_t offset, int count) {
      function_(how, MPI_IN_PLACE, place(offset), count, reduction_.type(), reduction_.op(),
                channel_.communicator);
    });
  }
  void finish() {
    reduction_.finish(result_, reduction_.target(), output_.count, shape_.size);
    const void* const copy = result_;
    if (is_mere_copy_)
      reduce_all(reducer_for(output_.dtype, ReduceOp::of(kind_)), &copy, 1, result_, output_.count);
  }

 private:
  /// Where MPI finds the input, and leaves the result. Where there is none it leaves all as it is.
  void* place(std::size_t offset) const {
    void* const all =
        result_ != nullptr ? reduction_.target() : const_cast<void*>(reduction_.source());
    return static_cast<std::byte*>(all) + offset * reduction_.element_bytes();
  }
  /// Where there are no accumulators.
  void bring_input() {
    if (result_ != nullptr && reduction_.source() != reduction_.target())
      bring_into_place(input_, output_, channel_, shape_.rank);
  }

  MpiChannel& channel_;
  GroupShape shape_;
  const decltype(all_reduce)& function_;
  ConstBufferView input_;
  BufferView output_;
  void* result_;  // null: none on this rank
  ReduceKind kind_;
  bool is_mere_copy_;
  MpiReduction reduction_;
};

}  // namespace

std::unique_ptr<Algorithm> make_all_reduce_mpi(std::shared_ptr<MpiChannel> channel,
                                               GroupShape shape) {
  return std::make_unique<MpiAlgorithm<AllReduceSteps>>(std::move(channel), shape);
}

}  // namespace hymn
