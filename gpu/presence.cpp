#include "gpu/presence.hpp"

#include <fmt/format.h>

#include "gpu/cuda_calls.hpp"

namespace hymn {
namespace {

struct GpuCount {
  int gpus = 0;
  std::string problem;  ///< why there are none
};

GpuCount count_gpus(const GpuFunctions& functions) {
  const cuda_api::Functions& cuda = functions.cuda;
  if (!functions.cuda_problem.empty())
    return {0, fmt::format("there is no CUDA driver: {}", functions.cuda_problem)};
  if (cuda.init.pointer == nullptr || cuda.count.pointer == nullptr)
    return {0, "the CUDA driver lacks functions that every version has"};
  GpuCount count;
  if (const auto result = cuda.init.pointer(0); result != cuda_api::success)
    count.problem = fmt::format("{} failed with {}", cuda.init.name, words_of(cuda, result));
  else if (const auto counted = cuda.count.pointer(&count.gpus); counted != cuda_api::success)
    count = {0, fmt::format("{} failed with {}", cuda.count.name, words_of(cuda, counted))};
  else if (count.gpus < 1)
    count = {0, "the CUDA driver lists none; CUDA_VISIBLE_DEVICES may hide them"};
  return count;
}

std::string driver_text(const GpuFunctions& functions) {
  if (!functions.cuda_problem.empty()) return fmt::format("none ({})", functions.cuda_problem);
  int version = 0;
  const auto& ask = functions.cuda.driver_version;
  if (ask.pointer == nullptr || ask.pointer(&version) != cuda_api::success)
    return "found, but it does not report its version";
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

std::string none_because(const std::string& problem, std::string otherwise) {
  return problem.empty() ? std::move(otherwise) : fmt::format("none ({})", problem);
}

}  // namespace

GpuPresence describe_presence(const GpuFunctions& functions, const NcclLibrary& nccl) {
  const GpuCount count = count_gpus(functions);
  return {.driver = driver_text(functions),
          .gpus = none_because(count.problem, std::to_string(count.gpus)),
          .nvml = none_because(functions.nvml_problem, "found"),
          .nccl = none_because(nccl.problem, nccl_version_text(nccl.version))};
}

std::string why_no_gpus(const GpuFunctions& functions) { return count_gpus(functions).problem; }

}  // namespace hymn
