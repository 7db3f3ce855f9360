#include "gpu/cuda_calls.hpp"

#include <fmt/format.h>

#include "hymn/error.hpp"

namespace hymn {
namespace {

using namespace cuda_api;

std::string ask(const Function<Result(Result, const char**)>& function, Result result) {
  const char* text = nullptr;
  if (function.pointer == nullptr || function.pointer(result, &text) != success || text == nullptr)
    return "";
  return text;
}

/// What a user can do; empty: nothing better is known than the driver's words.
const char* cuda_remedy_for(Result result) {
  switch (result) {
    case out_of_memory:
      return "free memory of the GPU, or look with nvidia-smi for other processes that hold it";
    case stub_library:
      return "take the directory of CUDA's stubs out of LD_LIBRARY_PATH: the driver's own library "
             "comes with the driver";
    case no_device:
    case invalid_device:
      return "look with nvidia-smi which GPUs there are, and into CUDA_VISIBLE_DEVICES";
    case uncorrectable_ecc:
      return "the GPU's memory is damaged: reset or replace the GPU";
    case illegal_address:
    case launch_failed:
      return "end the process: nothing can be done on the GPU in it any more; compute-sanitizer "
             "tells which kernel is at fault";
    case system_not_ready:
      return "start NVIDIA's fabric manager, which GPUs behind NVSwitch need";
    case driver_mismatch:
      return "the driver's library and its kernel module are of different versions: restart the "
             "machine after the driver's update";
    case no_binary_for_gpu:
    case unsupported_ptx:
      return "hymn's kernels are for GPUs of compute capability 8.0 and newer; update the driver, "
             "or "
             "build hymn with the CUDA toolkit that it belongs to";
    default:
      return "";
  }
}

}  // namespace

std::string words_of(const Functions& cuda, Result result) {
  const std::string name = ask(cuda.error_name, result);
  const std::string text = ask(cuda.error_text, result);
  if (name.empty()) return fmt::format("error {}", result);
  return text.empty() ? name : fmt::format("{}: {}", name, text);
}

void throw_cuda_error(const Functions& cuda, const char* function, Result result) {
  throw BackendError(fmt::format("{} failed with {}", function, words_of(cuda, result)), "CUDA",
                     result, {.remedy = cuda_remedy_for(result)});
}

void throw_lacking(const char* library, const char* function) {
  throw UnsupportedError(fmt::format("{} has no {}", library, function),
                         {.remedy = "install a newer version of it"});
}

}  // namespace hymn
