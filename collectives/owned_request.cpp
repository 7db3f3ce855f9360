#include "collectives/owned_request.hpp"

#include <algorithm>
#include <utility>

namespace hymn {
namespace {

using Dimensions = std::vector<std::vector<std::int64_t>>;

template <class View>
bool have_shapes(const Blocks<View>& blocks) {
  return std::ranges::any_of(blocks.views(), [](const View& view) {
    return !view.shape.empty() || !view.strides.empty();
  });
}

std::span<const std::int64_t> keep(std::span<const std::int64_t> given, Dimensions& kept) {
  if (given.empty()) return {};
  return kept.emplace_back(given.begin(), given.end());
}

template <class View>
View owning(View view, Dimensions& kept) {
  view.shape = keep(view.shape, kept);
  view.strides = keep(view.strides, kept);
  return view;
}

/// The same blocks of another flat buffer.
template <class View>
Blocks<View> with_flat(const Blocks<View>& blocks, View flat) {
  switch (blocks.layout()) {
    case Layout::whole:
      return Blocks<View>::whole(flat);
    case Layout::equal:
      return Blocks<View>::equal(flat);
    case Layout::counted:
      return Blocks<View>::counted(flat, blocks.counts());
    case Layout::list:
    case Layout::none:
      break;
  }
  return blocks;
}

}  // namespace

OwnedRequest::OwnedRequest(const Request& request)
    : inputs_(request.inputs.layout() == Layout::list
                  ? std::vector(request.inputs.views().begin(), request.inputs.views().end())
                  : std::vector<ConstBufferView>()),
      outputs_(request.outputs.layout() == Layout::list
                   ? std::vector(request.outputs.views().begin(), request.outputs.views().end())
                   : std::vector<BufferView>()),
      input_counts_(request.inputs.counts().begin(), request.inputs.counts().end()),
      output_counts_(request.outputs.counts().begin(), request.outputs.counts().end()),
      request_(request) {
  if (have_shapes(request.inputs) || have_shapes(request.outputs)) own_shapes();
  request_.inputs = request_.inputs.with_lists(inputs_, input_counts_);
  request_.outputs = request_.outputs.with_lists(outputs_, output_counts_);
}

OwnedRequest::OwnedRequest(const Request& call, std::vector<ConstBufferView> inputs,
                           std::vector<BufferView> outputs)
    : inputs_(std::move(inputs)), outputs_(std::move(outputs)), request_(call) {
  request_.inputs = inputs_.empty() ? InputBlocks() : InputBlocks::list(inputs_);
  request_.outputs = outputs_.empty() ? OutputBlocks() : OutputBlocks::list(outputs_);
  if (!have_shapes(request_.inputs) && !have_shapes(request_.outputs)) return;
  own_shapes();
}

// Each vector's memory stays where it is when the outer one grows.
void OwnedRequest::own_shapes() {
  for (ConstBufferView& view : inputs_) view = owning(view, dimensions_);
  for (BufferView& view : outputs_) view = owning(view, dimensions_);
  request_.inputs = with_flat(request_.inputs, owning(request_.inputs.flat(), dimensions_));
  request_.outputs = with_flat(request_.outputs, owning(request_.outputs.flat(), dimensions_));
}

}  // namespace hymn
