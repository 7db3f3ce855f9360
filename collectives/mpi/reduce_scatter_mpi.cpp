#include "collectives/mpi/mpi_reduction.hpp"

namespace hymn {
namespace {

constexpr MpiBlockFunction reduce_scatter{
    HYMN_MPI_FUNCTION(Reduce_scatter_block, Ireduce_scatter_block),
    HYMN_MPI_FUNCTION(Reduce_scatter, Ireduce_scatter)};

class ReduceScatterSteps {
 public:
  static constexpr OpTypes serves = {OpType::reduce_scatter};
  static Verdict can_run(const Request& request, GroupShape shape, std::size_t limit) {
    if (request.inputs.layout() == Layout::list) return wants_one_buffer();
    const std::size_t total = request.inputs.flat().count;
    const bool equal = request.inputs.layout() == Layout::equal;
    Verdict fits =
        fits_one_call(equal ? total / static_cast<std::size_t>(shape.size) : total, limit);
    return fits.ok ? mpi_can_reduce(request, shape) : fits;
  }

  ReduceScatterSteps(const Call& call, GroupShape shape, MpiChannel& channel, MpiKept& kept)
      : channel_(channel),
        size_(shape.size),
        equal_(call.request->inputs.layout() == Layout::equal),
        input_(call.request->inputs.flat()),
        output_(call.request->outputs.flat()),
        // No result buffer of full size: accumulators, where needed, are staged.
        reduction_(*call.request, input_.data, nullptr, input_.count, channel, kept),
        kept_(kept) {
    if (!equal_) keep_counts(kept, call.request->inputs.counts());
    // MPI's own in-place form means something else. A result inside the input, or in accumulator
    // form, is received beside it.
    const auto* input = static_cast<const std::byte*>(input_.data);
    const auto* out = static_cast<const std::byte*>(output_.data);
    const bool inside = out >= input && out < input + input_.bytes();
    target_ = output_.data;
    if (inside || reduction_.element_bytes() != output_.element_bytes()) {
      kept.received =
          std::make_unique_for_overwrite<std::byte[]>(output_.count * reduction_.element_bytes());
      target_ = kept.received.get();
    }
  }

  template <class How>
  void call(How how) {
    reduction_.load(input_.data, input_.count);
    // It takes no displacements.
    with_counts(equal_, count(), kept_, [&](auto counts, auto...) {
      reduce_scatter(how, source(), target_, counts, reduction_.type(), reduction_.op(),
                     channel_.communicator);
    });
  }
  void finish() { reduction_.finish(output_.data, target_, output_.count, size_); }

 private:
  int count() const { return static_cast<int>(output_.count); }
  const void* source() const { return apart_from(target_, reduction_.source()); }

  MpiChannel& channel_;
  int size_;
  bool equal_;
  ConstBufferView input_;
  BufferView output_;
  MpiReduction reduction_;
  MpiKept& kept_;
  void* target_ = nullptr;
};

}  // namespace

std::unique_ptr<Algorithm> make_reduce_scatter_mpi(std::shared_ptr<MpiChannel> channel,
                                                   GroupShape shape) {
  return std::make_unique<MpiAlgorithm<ReduceScatterSteps>>(std::move(channel), shape);
}

}  // namespace hymn
