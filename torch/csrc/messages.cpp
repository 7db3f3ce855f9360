// The backend "hymn": messages between two ranks.
#include "backend.hpp"
#include "errors.hpp"

namespace hymn_torch {
namespace {

void require_tag(int tag, const char* call) {
  if (tag < 0 || tag > HYMN_MAX_TAG)
    throw_value_error(std::string("hymn: ") + call + ": tag " + std::to_string(tag) +
                      " is not from 0 to " + std::to_string(HYMN_MAX_TAG));
}

}  // namespace

Backend::WorkPtr Backend::send(Tensors& tensors, int destination, int tag) {
  Call call(*this, c10d::OpType::SEND, "send", "hymn:send", &tensors);
  const at::Tensor& tensor = only(tensors, call.name());
  require_tag(tag, call.name());
  const std::size_t count = count_of(tensor, call.name());
  const auto type = moved_type(tensor.scalar_type(), call.name());
  const int to = call.world_rank(destination);
  const void* const data = call.buffers().input(tensor);
  return call.run([&](hymnWork_t* work) {
    return hymnISend(data, count, type, to, tag, call.group(), call.stream(), work);
  });
}

Backend::WorkPtr Backend::receive(Tensors& tensors, int source, int tag) {
  Call call(*this, source == HYMN_ANY_SOURCE ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV,
            "recv", "hymn:recv", &tensors);
  const at::Tensor& tensor = only(tensors, call.name());
  require_tag(tag, call.name());
  const std::size_t count = count_of(tensor, call.name());
  const auto type = moved_type(tensor.scalar_type(), call.name());
  void* const data = call.buffers().output(tensor);
  call.operation().add_result(tensor);
  call.operation().set_receive();
  return call.run([&](hymnWork_t* work) {
    return hymnIRecv(data, count, type, source, tag, call.group(), call.stream(), work);
  });
}

Backend::WorkPtr Backend::recv(Tensors& tensors, int source, int tag) {
  return receive(tensors, group_->world_rank(source), tag);
}

Backend::WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, HYMN_ANY_SOURCE, tag);
}

}  // namespace hymn_torch
