#include <cstring>

#include "collectives/mpi/mpi_collective.hpp"

namespace hymn {
namespace {

constexpr MpiFunction all_to_all = HYMN_MPI_FUNCTION(Alltoall, Ialltoall);

class AllToAllSteps {
 public:
  static constexpr OpTypes serves = {OpType::all_to_all};
  // The choice must come out the same on all ranks, and the sums of given splits differ from rank
  // to rank: so only equal splits are judged by their size.
  static Verdict can_run(const Request& request, GroupShape shape, std::size_t limit) {
    if (request.inputs.layout() == Layout::list || request.outputs.layout() == Layout::list)
      return wants_one_buffer();
    if (request.inputs.layout() == Layout::counted || request.outputs.layout() == Layout::counted)
      return Verdict::no("given splits: whether MPI can count them is known to each rank alone");
    return fits_one_call(request.inputs.flat().count / static_cast<std::size_t>(shape.size), limit);
  }

  AllToAllSteps(const Call& call, GroupShape shape, MpiChannel& channel, MpiKept& kept)
      : channel_(channel),
        input_(call.request->inputs.flat()),
        output_(call.request->outputs.flat()),
        count_(static_cast<int>(input_.count / static_cast<std::size_t>(shape.size))) {
    if (input_.data != output_.data || input_.bytes() == 0) return;
    // MPI's own in-place form must be used by all ranks or by none; each rank may choose here. It
    // could be given on all of them, but then each block would go through a swap.
    kept.staging = std::make_unique_for_overwrite<std::byte[]>(input_.bytes());
    std::memcpy(kept.staging.get(), input_.data, input_.bytes());
    input_.data = kept.staging.get();
  }

  template <class How>
  void call(How how) {
    all_to_all(how, source(), count_, mpi_type(input_), output_.data, count_, mpi_type(output_),
               channel_.communicator);
  }
  void finish() {}

 private:
  const void* source() const { return apart_from(output_.data, input_.data); }

  MpiChannel& channel_;
  ConstBufferView input_;
  BufferView output_;
  int count_;
};

}  // namespace

std::unique_ptr<Algorithm> make_all_to_all_mpi(std::shared_ptr<MpiChannel> channel,
                                               GroupShape shape) {
  return std::make_unique<MpiAlgorithm<AllToAllSteps>>(std::move(channel), shape);
}

}  // namespace hymn
