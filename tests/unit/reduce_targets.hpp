// The kernel tables of all instruction sets that this machine has, for tests of collectives/reduce.
#pragma once

#include "base/simd_targets.hpp"
// After simd_targets.hpp, so that this sees the same targets as the kernels.
#include <hwy/highway.h>

#include <string>
#include <vector>

#include "collectives/reduce/kernel_table.hpp"

namespace hymn {

struct TargetKernels {
  std::string name;
  detail::KernelTable table;
};

inline const std::vector<TargetKernels>& all_target_kernels() {
  static const std::vector<TargetKernels> all = [] {
    std::vector<TargetKernels> made;
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      made.push_back({hwy::TargetName(target), detail::make_kernel_table()});
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return made;
  }();
  return all;
}

}  // namespace hymn
