// How ranks go on together that are not equally far: after one was lost, the others may or may not
// have made the step in which that happened.
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/optim/optimizer.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "hymn/torch_collectives.hpp"
#include "hymn/torch_group.hpp"
#include "hymn/torch_outputs.hpp"

namespace hymn::torch {

namespace detail {

/// The lowest rank of the group that has gone furthest, and how far that is.
inline std::pair<int, std::int64_t> furthest(const Group& group, std::int64_t step) {
  const at::Tensor steps = at::empty({group.size()}, at::kLong);
  all_gather(steps, at::full({1}, step, at::kLong), group);
  const std::int64_t* const first = steps.data_ptr<std::int64_t>();
  const std::int64_t* const most = std::max_element(first, first + steps.numel());
  return {group.global_rank(static_cast<int>(most - first)), *most};
}

/// Those of the root, in memory of their own: what is replaced by them is whole until all are here.
inline Tensors received(const Tensors& tensors, int root, const Group& group) {
  Tensors received;
  for (const at::Tensor& each : tensors) {
    received.push_back(each.detach().clone());
    broadcast(received.back(), root, group);
  }
  return received;
}

inline at::Tensor packed(const ::torch::optim::Optimizer& optimizer) {
  std::ostringstream stream;
  ::torch::save(optimizer, stream);
  const std::string bytes = stream.str();
  const at::Tensor packed = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), packed.data_ptr<std::uint8_t>());
  return packed;
}
/// Of the root's own length.
inline at::Tensor received_bytes(const at::Tensor& mine, int root, const Group& group) {
  const at::Tensor length = at::full({1}, mine.numel(), at::kLong);
  broadcast(length, root, group);
  const at::Tensor bytes = at::empty({length.item<std::int64_t>()}, at::kByte);
  if (bytes.numel() == mine.numel()) bytes.copy_(mine);
  broadcast(bytes, root, group);
  return bytes;
}
inline void unpack(const at::Tensor& packed, ::torch::optim::Optimizer& optimizer) {
  const auto* const begin = reinterpret_cast<const char*>(packed.data_ptr<std::uint8_t>());
  std::istringstream stream(std::string(begin, begin + packed.numel()));
  ::torch::load(optimizer, stream);
}

}  // namespace detail

/// Parameters and buffers of the module, the state of the optimizer, and `others`, become those of
/// the rank that has made most steps, of several the lowest; returns how many these are. For after
/// shrink(), before a new wrapper: the optimizer is one of the module's parameters. All members of
/// the group call it, with the same modules and optimizers.
///
/// When it throws, everything is as it was, and it may be called again with another group.
template <class Module>
std::int64_t synchronize_from_furthest(const Group& group, std::int64_t step, const Module& module,
                                       ::torch::optim::Optimizer& optimizer,
                                       const Tensors& others = {}) {
  const auto [root, most] = detail::furthest(group, step);
  Tensors tensors = module->parameters();
  for (const at::Tensor& each : module->buffers()) tensors.push_back(each);
  tensors.insert(tensors.end(), others.begin(), others.end());
  const Tensors received = detail::received(tensors, root, group);
  const at::Tensor state = detail::received_bytes(detail::packed(optimizer), root, group);
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(received[i]);
  detail::unpack(state, optimizer);
  return most;
}

}  // namespace hymn::torch
