#include "collectives/cuda/hierarchical_launch.hpp"

#include <utility>

#include "collectives/cuda/pack.hpp"
#include "collectives/cuda/peer_launch.hpp"

namespace hymn {

std::vector<BufferView> shares_of(const HostShares& shares, int rank, const BufferView& out) {
  std::vector<BufferView> mine;
  const auto add = [&](HostShares::Part part) {
    mine.push_back(out.slice(part.offset / out.element_bytes(), part.bytes / out.element_bytes()));
  };
  for (std::size_t i = 0; i < shares.pieces(); ++i) add(shares.block(i, rank));
  if (shares.tail().bytes > 0 && rank == HostShares::tail_carrier) add(shares.tail());
  return mine;
}

// No share leaves the host before it is known to be whole.
bool HierarchicalLaunch::is_ready() {
  const bool is_folded = has_begun_ && inter_host_.is_folded();
  channel_.check();
  if (!has_begun_) return inter_host_.is_ready();
  if (is_spread_) return true;
  if (!is_folded || !inter_host_.step()) return false;
  const GpuDevice::Entry entry(gpu());
  spread();
  return is_spread_ = true;
}

void HierarchicalLaunch::enqueue() {
  has_begun_ = true;
  fold();
  cuda::StagingHead& head = *channel_.head();
  has_crossed_ = inter_host_.start(stream(), {.kernels = &head.kernels, .crossed = &head.crossed});
}

void HierarchicalLaunch::launch(OpType type, const void* from, void* to, std::size_t bytes) {
  const DataType dtype = request().inputs.dtype();
  cuda::PeerCall call{};
  call.input = from;
  call.output = to;
  call.bytes = call.stride = bytes;
  call.root = HostShares::tail_carrier;
  // The first kernel looks; where it has failed the others do not run.
  call.has_crossed = std::exchange(has_crossed_, false) ? 1 : 0;
  const char* const kernel = kernel_name(type, PeerMethod::one_shot, dtype, request().op.kind());
  channel_.launch(kernel, call, cuda::packs_in(bytes), stream(), is_captured());
}

// A share is folded to where it belongs in the output: there it crosses, and is spread from.
void HierarchicalLaunch::fold() {
  const auto* const in = static_cast<const std::byte*>(request().inputs.flat().data);
  auto* const out = static_cast<std::byte*>(request().outputs.flat().data);
  for (std::size_t i = 0; i < shares_.pieces(); ++i) {
    const HostShares::Part own = shares_.block(i, channel_.parts().shape.rank);
    launch(OpType::reduce_scatter, in + shares_.piece(i).offset, out + own.offset, own.bytes);
  }
  if (const HostShares::Part tail = shares_.tail(); tail.bytes > 0)
    launch(OpType::all_reduce, in + tail.offset, out + tail.offset, tail.bytes);
}

void HierarchicalLaunch::spread() {
  auto* const out = static_cast<std::byte*>(request().outputs.flat().data);
  for (std::size_t i = 0; i < shares_.pieces(); ++i) {
    const HostShares::Part own = shares_.block(i, channel_.parts().shape.rank);
    launch(OpType::all_gather, out + own.offset, out + shares_.piece(i).offset, own.bytes);
  }
  if (const HostShares::Part tail = shares_.tail(); tail.bytes > 0)
    launch(OpType::broadcast, out + tail.offset, out + tail.offset, tail.bytes);
}

}  // namespace hymn
