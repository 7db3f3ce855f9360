#include "collectives/cuda/peer_launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "base/kept_name.hpp"
#include "collectives/cuda/pack.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

using namespace cuda;

bool is_even(Layout layout) { return layout == Layout::whole || layout == Layout::equal; }

std::string_view method_of(OpType type, PeerMethod method) {
  if (type != OpType::all_reduce) return to_string(type);
  return method == PeerMethod::one_shot ? "all_reduce_one_shot" : "all_reduce_two_shot";
}

/// As PeerCall counts them. All ranks find the same: a root's blocks are not on the others.
std::uint64_t bytes_of_call(const Request& request, int ranks) {
  const std::size_t in = request.inputs.flat().bytes();
  if (!has_input_blocks(request.type)) return in;
  if (has_output_blocks(request.type)) return in / static_cast<std::size_t>(ranks);
  return request.outputs.flat().bytes();
}

/// Null stays null: what a rank neither gives nor gets is nowhere.
template <class T>
T* advanced(T* data, std::size_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return data == nullptr ? nullptr : static_cast<Byte*>(data) + bytes;
}

}  // namespace

const char* kernel_name(OpType type, PeerMethod method, DataType dtype, ReduceKind kind) {
  const std::string_view name = method_of(type, method);
  if (!reduces(type)) return kept_name(fmt::format("hymn_{}", name)).c_str();
  if (!has_peer_cell(dtype, kind))
    throw Error(ErrorKind::internal,
                fmt::format("there is no kernel for {} of {}", to_string(kind), to_string(dtype)));
  return kept_name(fmt::format("hymn_{}_{}_{}", name, to_string(dtype), to_string(kind))).c_str();
}

Verdict peer_can_run(const Request& request, PeerMethod method, int ranks, std::size_t slot_bytes) {
  Verdict known = can_move_bytes(request);
  if (!known.ok) return known;
  const bool has_data = request.type != OpType::barrier;
  if (has_data && (!is_even(request.inputs.layout()) || !is_even(request.outputs.layout())))
    return Verdict::no("the kernels support only equal blocks of one buffer");
  const std::optional<PlanQuery> query = plan_query(request, ranks);
  if (!query)
    return Verdict::no(fmt::format("there is no kernel for {}", to_string(request.op.kind())));
  return peer_kernel_takes(*query, method, slot_bytes);
}

bool PeerLaunch::is_ready() {
  channel_.check();
  return true;
}

// What does not fit into a slot goes piece by piece.
void PeerLaunch::enqueue() {
  const ConstBufferView& in = request().inputs.flat();
  const BufferView& out = request().outputs.flat();
  const GroupShape& shape = channel_.parts().shape;
  const char* const kernel = kernel_name(request().type, method_, in.dtype, request().op.kind());
  const std::size_t most =
      peer_piece_bytes(request().type, method_, shape.size, channel_.parts().slot_bytes);
  const std::size_t bytes = bytes_of_call(request(), shape.size);
  PeerCall call{};
  call.root = static_cast<std::uint32_t>(std::max(root_, 0));
  call.stride = bytes;
  std::size_t done = 0;
  do {
    call.bytes = std::min(bytes - done, most);
    call.input = advanced(in.data, done);
    call.output = advanced(out.data, done);
    channel_.launch(kernel, call, packs_in(call.bytes), stream(), is_captured());
    done += call.bytes;
  } while (done < bytes);
}

}  // namespace hymn
