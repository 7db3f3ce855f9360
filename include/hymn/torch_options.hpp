// How DistributedDataParallel works.
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/types.h>

#include <cstddef>
#include <vector>

#include "hymn/torch_hook.hpp"

namespace hymn::torch {

/// The same on all ranks.
struct DdpOptions {
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{25} << 20;
  /// Averages stay in the buckets, and gradients are views of these: what a program keeps of one
  /// becomes the next step's. False: they are copied back, which costs as much as the reduction.
  /// (PyTorch's default is false.)
  bool gradient_as_bucket_view = true;
  /// Not all parameters take part in each iteration: those that the outputs of forward() do not
  /// depend on are found, and not waited for.
  bool find_unused_parameters = false;
  /// Each iteration uses the same parameters as the first, as often.
  bool static_graph = false;
  bool broadcast_parameters = true;
  /// Buffers, such as running means, become those of the first rank at the end of each iteration.
  bool broadcast_buffers = true;
  /// None: averages.
  CommHook hook{};
  /// As those of torch.nn.parallel.DistributedDataParallel, which are for modules on one GPU.
  std::vector<at::Device> device_ids{};
  c10::optional<at::Device> output_device{};
};

}  // namespace hymn::torch
