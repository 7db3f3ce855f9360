#include "collectives/plain_request.hpp"

#include <array>
#include <cstdint>

namespace hymn {
namespace {

/// All but the type, in one question, for each one would be felt. A count of up to 32 bits: no
/// product with a number of ranks or the size of an element overflows.
template <class View>
bool is_plain(const View& view) {
  const std::uint64_t unusual = (view.count >> 32) | view.shape.size() | view.strides.size() |
                                reinterpret_cast<std::uintptr_t>(view.opaque) |
                                static_cast<std::uint64_t>(view.memory);
  static_assert(static_cast<std::uint64_t>(MemoryKind::host) == 0);
  return unusual == 0 && view.data != nullptr;
}

/// How the two sides of a collective are laid out where neither counts nor lists are given; none:
/// this one is always looked at closely.
struct Layouts {
  Layout inputs = Layout::none;
  Layout outputs = Layout::none;
};

constexpr auto usual_layouts = [] {
  std::array<Layouts, op_type_count> layouts{};
  const auto set = [&layouts](OpType type, Layout inputs, Layout outputs) {
    layouts[static_cast<std::size_t>(type)] = {inputs, outputs};
  };
  for (const OpType type : {OpType::all_reduce, OpType::broadcast, OpType::reduce})
    set(type, Layout::whole, Layout::whole);
  for (const OpType type : {OpType::gather, OpType::all_gather})
    set(type, Layout::whole, Layout::equal);
  for (const OpType type : {OpType::scatter, OpType::reduce_scatter})
    set(type, Layout::equal, Layout::whole);
  return layouts;
}();

/// Neither one of another library nor none at all.
bool is_own_type(DataType dtype) { return size_of(dtype) != 0; }

bool are_apart(const ConstBufferView& in, const BufferView& out) {
  const auto from = reinterpret_cast<std::uintptr_t>(in.data);
  const auto to = reinterpret_cast<std::uintptr_t>(out.data);
  const std::size_t element = size_of(in.dtype);
  return from < to ? to - from >= in.count * element : from - to >= out.count * element;
}

}  // namespace

bool is_plainly_right(const Request& request, GroupShape shape, int root) {
  const Layouts usual = usual_layouts[static_cast<std::size_t>(request.type)];
  const ConstBufferView& in = request.inputs.flat();
  const BufferView& out = request.outputs.flat();
  if (request.op.kind() == ReduceKind::opaque) return false;
  // What a rank other than the root passes on the root's side is not looked at, but for counts.
  if (shape.rank != root) {
    if (request.type == OpType::reduce || request.type == OpType::gather)
      return request.inputs.layout() == usual.inputs && is_plain(in) && is_own_type(in.dtype) &&
             request.outputs.layout() != Layout::counted;
    if (request.type == OpType::scatter)
      return request.outputs.layout() == usual.outputs && is_plain(out) && is_own_type(out.dtype) &&
             request.inputs.layout() != Layout::counted;
  }
  if (usual.inputs == Layout::none || request.inputs.layout() != usual.inputs ||
      request.outputs.layout() != usual.outputs || !is_plain(in) || !is_plain(out) ||
      in.dtype != out.dtype || !is_own_type(in.dtype))
    return false;
  const auto ranks = static_cast<std::size_t>(shape.size);
  const std::size_t parts_in = usual.inputs == Layout::equal ? ranks : 1;
  const std::size_t parts_out = usual.outputs == Layout::equal ? ranks : 1;
  if (in.count * parts_out != out.count * parts_in) return false;
  return are_apart(in, out) || (in.data == out.data && parts_in == parts_out);
}

}  // namespace hymn
