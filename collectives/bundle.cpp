#include "collectives/bundle.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "collectives/call_label.hpp"

namespace hymn {
namespace {

constexpr std::size_t too_many = std::numeric_limits<std::size_t>::max();

Layout flat_layout(SideForm form) {
  return form == SideForm::blocks ? Layout::equal : Layout::whole;
}

// Of prefixes a rank may get nothing; premul_sum and custom have a factor, or a function, of their
// own in each call.
bool can_be_bundled(const Request& request) {
  const OpTraits& traits = traits_of(request.type);
  static_assert(ReduceKind::premul_sum < ReduceKind::custom && reduce_kind_count == 14);
  return traits.collective && !traits.prefix && traits.input != SideForm::none &&
         request.inputs.layout() == flat_layout(traits.input) &&
         request.outputs.layout() == flat_layout(traits.output) &&
         request.op.kind() < ReduceKind::premul_sum && size_of(request.inputs.dtype()) != 0;
}

std::size_t blocks_in(SideForm form, int members) {
  return form == SideForm::blocks ? static_cast<std::size_t>(members) : 1;
}

/// Elements of one block: those of the side that all members have, and know alike.
std::size_t block_of(const Request& request, int members) {
  const OpTraits& traits = traits_of(request.type);
  const bool by_output = all_have_outputs(request.type);
  const std::size_t count = by_output ? request.outputs.flat().count : request.inputs.flat().count;
  return count / blocks_in(by_output ? traits.output : traits.input, members);
}

template <class View>
Blocks<View> as_form(SideForm form, View view) {
  return form == SideForm::blocks ? Blocks<View>::equal(view) : Blocks<View>::whole(view);
}

}  // namespace

std::size_t bundled_bytes(const Request& request, int members) {
  if (!can_be_bundled(request)) return too_many;
  const OpTraits& traits = traits_of(request.type);
  const std::size_t each = block_of(request, members) * size_of(dtype_of(request));
  const std::size_t blocks =
      std::max(blocks_in(traits.input, members), blocks_in(traits.output, members));
  return each > too_many / blocks ? too_many : each * blocks;
}

std::size_t Bundle::in_blocks() const {
  return blocks_in(traits_of(request_.type).input, shape_.size);
}
std::size_t Bundle::out_blocks() const {
  return blocks_in(traits_of(request_.type).output, shape_.size);
}

void Bundle::add(const Request& request) {
  if (calls_.empty()) {
    request_ = request;
    request_.inputs = {};
    request_.outputs = {};
    request_.inputs =
        as_form(traits_of(request.type).input, ConstBufferView(nullptr, 0, dtype_of(request)));
  }
  const std::size_t each = block_of(request, shape_.size) * size_of(dtype_of(request));
  calls_.push_back({static_cast<const std::byte*>(request.inputs.flat().data),
                    static_cast<std::byte*>(request.outputs.flat().data), each});
  each_ += each;
  bytes_ += each * std::max(in_blocks(), out_blocks());
}

// Input and output share memory where both are whole, or the input is a block of the output.
bool Bundle::is_apart() const { return traits_of(request_.type).input == SideForm::blocks; }

std::byte* Bundle::packed_input() {
  if (is_apart()) return memory_.get() + out_blocks() * each_;
  const bool is_block = in_blocks() < out_blocks();
  return memory_.get() + (is_block ? static_cast<std::size_t>(shape_.rank) * each_ : 0);
}

const Request& Bundle::close() {
  const DataType dtype = request_.inputs.dtype();
  const OpTraits& traits = traits_of(request_.type);
  const std::size_t blocks = out_blocks() + (is_apart() ? in_blocks() : 0);
  memory_ = std::make_unique_for_overwrite<std::byte[]>(blocks * each_);
  const std::size_t count = each_ / size_of(dtype);
  request_.inputs =
      as_form(traits.input, ConstBufferView(packed_input(), in_blocks() * count, dtype));
  request_.outputs = as_form(traits.output, BufferView(memory_.get(), out_blocks() * count, dtype));
  return request_;
}

void Bundle::pack() {
  if (!uses_inputs(request_.type, is_root_) || (traits_of(request_.type).one_buffer && !is_root_))
    return;
  std::byte* to = packed_input();
  for (std::size_t block = 0; block < in_blocks(); ++block) {
    for (const Buffers& call : calls_) {
      if (call.each != 0) std::memcpy(to, call.in + block * call.each, call.each);
      to += call.each;
    }
  }
}

void Bundle::unpack() {
  if (!uses_outputs(request_.type, is_root_) || (traits_of(request_.type).one_buffer && is_root_))
    return;
  const std::byte* from = memory_.get();
  for (std::size_t block = 0; block < out_blocks(); ++block) {
    for (const Buffers& call : calls_) {
      if (call.each != 0) std::memcpy(call.out + block * call.each, from, call.each);
      from += call.each;
    }
  }
}

}  // namespace hymn
