// Requests on the memory of a GPU that nothing carries from there: copied to pinned memory of the
// host, carried by another path, and copied back.
#pragma once

#include <memory>
#include <utility>

#include "collectives/algorithm.hpp"
#include "collectives/staged/staged_model.hpp"
#include "gpu/pinned_pool.hpp"

namespace hymn {

/// What stages on one rank: its GPU, and pinned memory.
struct StagingArea {
  explicit StagingArea(std::shared_ptr<GpuDevice> rank_gpu) : gpu(rank_gpu), pool(rank_gpu) {}
  std::shared_ptr<GpuDevice> gpu;
  PinnedPool pool;
};

class StagedAlgorithm final : public Algorithm {
 public:
  /// `rank`: of this rank in the group.
  StagedAlgorithm(std::shared_ptr<StagingArea> area, int rank)
      : Algorithm(staged_model), area_(std::move(area)), rank_(rank) {}

  /// `picker` chooses who carries a request on host memory.
  void carry_by(AlgorithmPicker picker) { pick_ = std::move(picker); }

  Verdict can_run(const Request& request) const override;
  Reproducibility promises(const Request& request) const override;
  Operation& prepare(OperationStorage& storage, const Call& call) override;

 private:
  std::shared_ptr<StagingArea> area_;
  int rank_;
  AlgorithmPicker pick_;
};

}  // namespace hymn
