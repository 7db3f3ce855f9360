#include "runtime/mechanisms/gpu_path.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/presence.hpp"
#include "hymn/error.hpp"

namespace hymn {
bool leaves_only(std::string_view path, const PathPolicy& policy) {
  // Peer memory is used only where it is named.
  const auto is_left = [&policy](std::string_view other) {
    return other == paths::cuda_p2p ? policy.names(other) : policy.allows(other);
  };
  return std::all_of(paths::all.begin(), paths::all.end(),
                     [&](std::string_view other) { return is_left(other) == (other == path); });
}

void require_gpu_path(const PathPolicy& policy, const GroupLayout& layout) {
  if (!leaves_only(paths::nccl, policy)) return;
  const std::string asked = fmt::format("the path setting '{}' leaves only NCCL", policy.text());
  const int without = layout.ranks_without_gpu();
  if (without == layout.size) {
    const std::string why = why_no_gpus(loaded_gpu_functions());
    throw ConfigError(fmt::format("{}, which is only supported with GPUs, no GPUs found{}{}", asked,
                                  why.empty() ? "" : ": ", why),
                      {.remedy = "allow another path, or start on machines with GPUs"});
  }
  if (without > 0)
    throw ConfigError(fmt::format("{}, which is only supported with GPUs, but {} of {} ranks have "
                                  "none",
                                  asked, without, layout.size),
                      {.remedy = "allow another path, or give every rank a GPU"});
}

}  // namespace hymn
