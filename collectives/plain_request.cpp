#include "collectives/plain_request.hpp"

#include <array>
#include <cstdint>

#include "hymn/process_group.hpp"

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

constexpr Layout usual_layout(SideForm form) {
  switch (form) {
    case SideForm::none:
      return Layout::none;
    case SideForm::whole:
      return Layout::whole;
    case SideForm::blocks:
      return Layout::equal;
  }
  return Layout::none;
}

constexpr auto usual_layouts = [] {
  std::array<Layouts, op_type_count> layouts{};
  for (const OpType type : all_op_types) {
    const OpTraits& traits = traits_of(type);
    // Blocks on both sides can be wrong in more ways, and of prefixes there is no average.
    if (traits.collective && !traits.prefix && !(has_input_blocks(type) && has_output_blocks(type)))
      layouts[static_cast<std::size_t>(type)] = {usual_layout(traits.input),
                                                 usual_layout(traits.output)};
  }
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

/// What a rank other than the root passes on the root's side, of which counts and dtypes are looked
/// at.
template <class View>
bool may_be_ignored(const Blocks<View>& side, DataType dtype) {
  return side.layout() != Layout::counted && side.layout() != Layout::list &&
         (side.flat().data == nullptr || side.flat().dtype == dtype);
}

template <class View, class Other>
bool is_plain_message(const Blocks<View>& own, const Blocks<Other>& other, int tag) {
  return own.layout() == Layout::whole && other.layout() == Layout::none && is_plain(own.flat()) &&
         is_own_type(own.flat().dtype) && tag >= 0 && tag <= ProcessGroup::max_tag;
}

}  // namespace

bool is_plainly_right(const Request& request, GroupShape shape, int root) {
  if (request.type == OpType::send)
    return is_plain_message(request.inputs, request.outputs, request.tag);
  if (request.type == OpType::recv)
    return is_plain_message(request.outputs, request.inputs, request.tag);
  const Layouts usual = usual_layouts[static_cast<std::size_t>(request.type)];
  const ConstBufferView& in = request.inputs.flat();
  const BufferView& out = request.outputs.flat();
  if (request.op.kind() >= ReduceKind::custom) return false;
  static_assert(ReduceKind::custom < ReduceKind::opaque && reduce_kind_count == 14);
  if (shape.rank != root) {
    if (!uses_outputs(request.type, /*is_root=*/false))
      return request.inputs.layout() == usual.inputs && is_plain(in) && is_own_type(in.dtype) &&
             may_be_ignored(request.outputs, in.dtype);
    if (!uses_inputs(request.type, /*is_root=*/false))
      return request.outputs.layout() == usual.outputs && is_plain(out) && is_own_type(out.dtype) &&
             may_be_ignored(request.inputs, out.dtype);
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
