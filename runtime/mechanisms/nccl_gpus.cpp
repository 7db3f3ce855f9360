#include "runtime/mechanisms/nccl_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "hymn/error.hpp"
#include "topology/gpu_probe.hpp"

namespace hymn {

// A machine may be described by a file, with GPUs that are not here.
void RankGpus::placed(const JobMap& job) {
  rank_ = job.place().rank;
  host_ = job.host;
  machines_ = job.machines;
  here_ =
      machines_[static_cast<std::size_t>(job.world.hosts[static_cast<std::size_t>(host_)].machine)];
  const int place = job.place().gpu;
  if (place < 0 || functions_ == nullptr) return;
  const int index = index_in_driver(*functions_, here_->gpus[static_cast<std::size_t>(place)]);
  if (index >= 0) own_ = &keep(index, place);
}

const RankGpu& RankGpus::named(int index) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_index_.find(index); found != by_index_.end()) return found->second;
  }
  const std::vector<Gpu> seen =
      functions_ != nullptr ? gpus_in_driver(*functions_) : std::vector<Gpu>();
  const auto wanted = std::find_if(seen.begin(), seen.end(),
                                   [index](const Gpu& gpu) { return gpu.index == index; });
  if (wanted == seen.end())
    throw UsageError(fmt::format("GroupOptions::gpu is {} on rank {}, which sees {} GPUs", index,
                                 rank_, seen.size()),
                     {.remedy = "give the number of a visible GPU, counted from 0, or check "
                                "CUDA_VISIBLE_DEVICES"});
  const int place = find_gpu(here_->gpus, *wanted);
  if (place < 0)
    throw UsageError(
        fmt::format("GroupOptions::gpu is {} on rank {}, which is none of the {} GPUs that its "
                    "host is said to have",
                    index, rank_, here_->gpus.size()),
        {.remedy = "check HYMN_TOPOLOGY_FILE"});
  return keep(index, place);
}

const RankGpu& RankGpus::keep(int index, int place) {
  const std::lock_guard lock(mutex_);
  return by_index_
      .try_emplace(index, functions_->cuda, index, place, fmt::format("{}/{}", host_, place))
      .first->second;
}

}  // namespace hymn
