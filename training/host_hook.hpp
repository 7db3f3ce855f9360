// Hooks that compute on the host: not for gradients in the memory of GPUs.
#pragma once

#include <string>

#include "hymn/gradient_reducer.hpp"

namespace hymn::training::detail {

/// Refuses what it cannot read.
struct HostHook {
  std::string name;
  CommHook hook;

  Future<BufferView> operator()(const GradBucket& bucket) const {
    if (bucket.buffer().memory == MemoryKind::device) refuse(name);
    return hook(bucket);
  }
  [[noreturn]] static void refuse(const std::string& name);
};

/// UnsupportedError for those that are known to be of this kind.
void require_hook_for_gpus(const CommHook& hook);

}  // namespace hymn::training::detail
