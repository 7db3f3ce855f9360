#include "collectives/cuda/float32_reduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "collectives/cuda/pack.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

unsigned blocks_to_convert(std::size_t bytes) {
  constexpr std::uint64_t most = 1024;  // enough to have every GPU read at full speed
  return static_cast<unsigned>(
      std::clamp<std::uint64_t>(cuda::packs_in(bytes) / cuda::threads_of_block, 1, most));
}

struct Kernels {
  const char* widen;
  const char* narrow;
};

Kernels kernels_for(DataType dtype, ReduceKind kind) {
  const bool is_scaled = kind == ReduceKind::premul_sum;
  const bool is_averaged = kind == ReduceKind::avg;
  if (dtype == DataType::float16)
    return {is_scaled ? "hymn_widen_float16_scaled" : "hymn_widen_float16",
            is_averaged ? "hymn_narrow_float16_averaged" : "hymn_narrow_float16"};
  return {is_scaled ? "hymn_widen_bfloat16_scaled" : "hymn_widen_bfloat16",
          is_averaged ? "hymn_narrow_bfloat16_averaged" : "hymn_narrow_bfloat16"};
}

/// Those of a float, of premul_sum.
std::uint32_t factor_bits(const ReduceOp& op) {
  if (op.kind() != ReduceKind::premul_sum) return 0;
  return std::bit_cast<std::uint32_t>(static_cast<float>(op.factor()));
}

/// What is left for the steps between widening and narrowing: factors and quotients are theirs.
ReduceOp inner_op(ReduceKind kind) {
  return kind == ReduceKind::product ? ReduceOp::product : ReduceOp::sum;
}

}  // namespace

Verdict can_reduce_in_float32(DataType dtype, ReduceKind kind) {
  if (dtype != DataType::float16 && dtype != DataType::bfloat16)
    return Verdict::no(fmt::format("{} is not reduced in float32", to_string(dtype)));
  const ReduceFamily family = traits_of(kind).family;
  if (family != ReduceFamily::sum && family != ReduceFamily::product)
    return Verdict::no(fmt::format("{} rounds nothing", to_string(kind)));
  return Verdict::yes();
}

Verdict can_reduce_in_float32(const Request& request) {
  if (request.inputs.layout() == Layout::list)
    return Verdict::no("only a single buffer can be widened");
  return can_reduce_in_float32(request.inputs.dtype(), request.op.kind());
}

Float32Reduction::Float32Reduction(std::shared_ptr<cuda::GpuKernels> kernels,
                                   const Request& request, const GroupShape& shape, int root)
    : kernels_(std::move(kernels)), request_(request), shape_(shape), root_(root) {}

BufferView Float32Reduction::wide() const {
  return {reinterpret_cast<float*>(memory_), request_.inputs.flat().count, DataType::float32,
          MemoryKind::device};
}

// In place, where NCCL allows that: a rank's block of a reduce_scatter is where its input is.
Request Float32Reduction::widened() const {
  const ReduceOp op = inner_op(request_.op.kind());
  if (request_.type == OpType::all_reduce) return Request::all_reduce(wide(), wide(), op);
  if (request_.type == OpType::reduce) return Request::reduce(wide(), wide(), request_.peer, op);
  if (request_.type == OpType::reduce_scatter) return widened_scatter(op);
  throw Error(ErrorKind::internal, fmt::format("{} does not reduce", to_string(request_.type)));
}

Request Float32Reduction::widened_scatter(const ReduceOp& op) const {
  const auto counts = request_.inputs.counts();
  const BufferView own =
      counts.empty() ? OutputBlocks::equal(wide()).block(shape_.rank, shape_.size)
                     : OutputBlocks::counted(wide(), counts).block(shape_.rank, shape_.size);
  return Request::reduce_scatter(
      counts.empty() ? InputBlocks::equal(wide()) : InputBlocks::counted(wide(), counts), own, op);
}

const Request& Float32Reduction::begin(cuda_api::Stream stream) {
  const ConstBufferView& in = request_.inputs.flat();
  memory_ = kernels_->gpu().allocate_on(stream, std::max<std::size_t>(in.count, 1) * sizeof(float));
  inner_ = widened();
  kernels_->launch(kernels_for(in.dtype, request_.op.kind()).widen, blocks_to_convert(in.bytes()),
                   stream, in.data, static_cast<float*>(wide().data), std::uint64_t{in.count},
                   factor_bits(request_.op));
  return inner_;
}

void Float32Reduction::finish(cuda_api::Stream stream) {
  if (memory_ == 0) return;
  if (request_.type != OpType::reduce || shape_.rank == root_) {
    const BufferView& out = request_.outputs.flat();
    kernels_->launch(kernels_for(out.dtype, request_.op.kind()).narrow,
                     blocks_to_convert(out.bytes()), stream,
                     static_cast<const float*>(inner_.outputs.flat().data), out.data,
                     std::uint64_t{out.count}, static_cast<std::uint32_t>(shape_.size));
  }
  kernels_->gpu().release_on(stream, memory_);
  memory_ = 0;
}

// The stream of the operation may be gone by then.
std::function<void()> Float32Reduction::release_behind(cuda_api::Event event) noexcept {
  if (memory_ == 0 || event == nullptr) return nullptr;
  try {
    GpuDevice& gpu = kernels_->gpu();
    cuda_api::Stream own = gpu.make_stream(/*high_priority=*/false);
    gpu.wait_on(own, event);
    return [kernels = kernels_, own, memory = std::exchange(memory_, 0)] {
      try {
        kernels->gpu().release_on(own, memory);
      } catch (const Error&) {  // NOLINT: a GPU that has failed takes its memory with it
      }
      kernels->gpu().destroy_stream(own);
    };
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace hymn
