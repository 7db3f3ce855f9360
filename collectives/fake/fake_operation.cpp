#include "collectives/fake/fake_operation.hpp"

#include <algorithm>
#include <cstring>

namespace hymn {
namespace {

/// As much as there is room for: blocks of given sizes need not fit what others would send.
void copy_block(ConstBufferView from, BufferView to) {
  const std::size_t bytes = std::min(from.bytes(), to.bytes());
  if (bytes > 0 && from.data != to.data) std::memmove(to.data, from.data, bytes);
}

}  // namespace

bool FakeOperation::has_result() const {
  const OpType type = call_.request->type;
  const OpTraits& traits = traits_of(type);
  if (traits.input == SideForm::none || traits.output == SideForm::none || traits.one_buffer)
    return false;
  if (traits.root != RootRole::none && call_.peer != shape_.rank) return false;
  return type != OpType::exscan || shape_.rank > 0;
}

void FakeOperation::start() {
  if (!has_result()) return;
  const OutputBlocks& outputs = call_.request->outputs;
  const ConstBufferView own = call_.request->inputs.block(shape_.rank, shape_.size);
  if (outputs.layout() == Layout::whole) return copy_block(own, outputs.flat());
  outputs.for_each(shape_.size, [&own](int, BufferView block) { copy_block(own, block); });
}

RecvStatus FakeOperation::status() const {
  const int anyone = shape_.rank == 0 && shape_.size > 1 ? 1 : 0;
  return {.source = call_.peer == any_source ? anyone : call_.peer,
          .tag = call_.request->tag,
          .count = call_.request->outputs.flat().count};
}

}  // namespace hymn
