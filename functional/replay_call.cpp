#include "functional/replay_call.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "functional/program.hpp"
#include "functional/storage.hpp"

namespace hymn::functional::detail {
namespace {

template <class View>
View view_of_buffer(const Array& array) {
  return View(array.mutable_data(), static_cast<std::size_t>(array.count()), array.dtype());
}

/// Where this rank has no buffer the form of the others' counts.
template <class View>
Blocks<View> blocks_of(Layout layout, std::span<const View> views,
                       std::span<const std::size_t> counts, DataType dtype) {
  const View one = views.empty() ? View(nullptr, 0, dtype) : views.front();
  switch (layout) {
    case Layout::none:
      break;
    case Layout::whole:
      return Blocks<View>::whole(one);
    case Layout::equal:
      return Blocks<View>::equal(one);
    case Layout::counted:
      return Blocks<View>::counted(one, counts);
    case Layout::list:
      if (!views.empty()) return Blocks<View>::list(views);
      break;
  }
  return {};
}

void copy_elements_of(const ConstBufferView& from, const BufferView& to) {
  if (const std::size_t bytes = std::min(from.bytes(), to.bytes()); bytes > 0)
    std::memcpy(to.data, from.data, bytes);
}

}  // namespace

Request ReplayedCalls::request_of(const ProgramNode& node, Buffers& buffers) {
  for (const std::size_t value : node.inputs) {
    // A copy where it is not contiguous, which stays until the call has ended.
    buffers.kept.push_back(values_[value].contiguous());
    const Array& array = buffers.kept.back();
    buffers.inputs.emplace_back(array.data(), static_cast<std::size_t>(array.count()),
                                array.dtype());
  }
  for (const std::size_t value : node.outputs) {
    const ArraySpec& spec = program_.values[value];
    values_[value] = Array::zeros(spec.shape, spec.dtype);
    buffers.kept.push_back(values_[value]);
    buffers.outputs.push_back(view_of_buffer<BufferView>(values_[value]));
  }
  const ProgramCall& call = node.call;
  const DataType dtype = !buffers.inputs.empty()    ? buffers.inputs.front().dtype
                         : !buffers.outputs.empty() ? buffers.outputs.front().dtype
                                                    : DataType::uint8;
  Request request;
  request.type = call.type;
  request.op = call.reduction;
  request.peer = call.peer;
  request.tag = call.tag;
  request.outputs = blocks_of<BufferView>(call.output, buffers.outputs, call.output_counts, dtype);
  request.inputs = blocks_of<ConstBufferView>(call.input, buffers.inputs, call.input_counts, dtype);
  if (traits_of(call.type).one_buffer) {
    if (!buffers.inputs.empty()) copy_elements_of(buffers.inputs.front(), buffers.outputs.front());
    request.inputs = InputBlocks::whole(request.outputs.flat());
  }
  return request;
}

void ReplayedCalls::start(std::size_t node, ProcessGroup group) {
  if (of_node_.contains(node)) return;
  auto started = std::make_shared<Started>();
  std::vector<Request> requests;
  const std::size_t end = node + program_.nodes[node].call.following + 1;
  for (std::size_t part = node; part < end; ++part) {
    started->buffers.push_back(std::make_unique<Buffers>());
    requests.push_back(request_of(program_.nodes[part], *started->buffers.back()));
    of_node_[part] = started;
  }
  started_.push_back(started);
  if (requests.size() == 1) {
    started->work = group.start(requests.front());
  } else if (is_message(requests.front().type)) {
    std::vector<P2POp> batch;
    for (const Request& request : requests) batch.push_back({request});
    started->work = group.batch_isend_irecv(batch);
  } else {
    started->work = group.start_coalesced(requests);
  }
}

void ReplayedCalls::wait(std::span<const std::size_t> nodes) {
  for (const std::size_t node : nodes) of_node_.at(node)->work.wait();
}

void ReplayedCalls::wait_for_all() {
  for (const auto& started : started_) started->work.wait();
}

ReplayedCalls::~ReplayedCalls() {
  std::vector<std::shared_ptr<void>> left;
  for (auto& started : started_)
    if (started->work.valid() && (!started->work.is_completed() || started->work.error()))
      left.push_back(std::move(started));
  leave_behind(std::move(left));
}

}  // namespace hymn::functional::detail
