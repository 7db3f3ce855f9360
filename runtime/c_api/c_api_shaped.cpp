// The C API: collectives of buffers with shapes.
#include "hymn/hymn_shaped.h"
#include "runtime/c_api/c_api.hpp"

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace

namespace {

template <class View>
hymn::Blocks<View> shaped(const hymn::Blocks<View>& blocks, const hymnShape_t* shape) {
  if (shape == nullptr || blocks.layout() == hymn::Layout::none) return blocks;
  View view = blocks.flat();
  if (shape->dimensions > 0) view.shape = {need(shape->shape, "shape"), shape->dimensions};
  if (shape->strides != nullptr) view.strides = {shape->strides, shape->dimensions};
  return blocks.layout() == hymn::Layout::whole ? hymn::Blocks<View>::whole(view)
                                                : hymn::Blocks<View>::equal(view);
}

/// Not where one is a block of the other, as in an all_gather in place.
bool is_one_buffer(const hymn::Request& request) {
  const hymn::ConstBufferView input = request.inputs.flat();
  const hymn::BufferView output = request.outputs.flat();
  return input.data == output.data && input.count == output.count;
}

hymnResult_t carry_out(const Call& call, hymnCollective_t collective,
                       const hymnCollectiveCall_t* of, const hymnShape_t* send,
                       const hymnShape_t* recv) {
  return call.carry_out([&](const hymn::ProcessGroup& group) {
    hymn::Request request = request_of(collective, *need(of, "call"), group);
    request.inputs =
        shaped(request.inputs, send == nullptr && is_one_buffer(request) ? recv : send);
    request.outputs = shaped(request.outputs, recv);
    return request;
  });
}

}  // namespace

hymnResult_t hymnCollectiveShaped(hymnCollective_t collective, const hymnCollectiveCall_t* call,
                                  const hymnShape_t* send, const hymnShape_t* recv,
                                  hymnGroup_t group, hymnStream_t stream) {
  return carry_out(blocking(__func__, group, stream), collective, call, send, recv);
}

hymnResult_t hymnICollectiveShaped(hymnCollective_t collective, const hymnCollectiveCall_t* call,
                                   const hymnShape_t* send, const hymnShape_t* recv,
                                   hymnGroup_t group, hymnStream_t stream, hymnWork_t* work) {
  return carry_out(starting(__func__, group, stream, work), collective, call, send, recv);
}
