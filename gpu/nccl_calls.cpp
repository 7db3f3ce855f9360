#include "gpu/nccl_calls.hpp"

#include <fmt/format.h>

#include "hymn/error.hpp"

namespace hymn {
namespace {

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

const char* nccl_remedy_for(nccl_api::Result result) {
  switch (result) {
    case nccl_api::unhandled_cuda_error:
      return "look at the CUDA error in this text; NCCL_DEBUG=WARN tells more";
    case nccl_api::system_error:
      return "look for exhausted memory, /dev/shm or open files, and at NCCL_SOCKET_IFNAME; "
             "NCCL_DEBUG=WARN tells more";
    case nccl_api::remote_error:
      return "look for a rank that has failed, or a network that has: NCCL has lost a peer";
    default:
      return "NCCL_DEBUG=WARN tells more";
  }
}

}  // namespace

void throw_nccl_error(const nccl_api::Functions& nccl, const std::string& what,
                      nccl_api::Result result, nccl_api::Comm comm) {
  std::string words =
      nccl.error_text.pointer != nullptr ? text_of(nccl.error_text.pointer(result)) : "";
  if (words.empty()) words = fmt::format("error {}", result);
  const std::string last =
      nccl.last_error.pointer != nullptr ? text_of(nccl.last_error.pointer(comm)) : "";
  throw BackendError(
      fmt::format("{} failed with {}{}{}", what, words, last.empty() ? "" : ": ", last), "NCCL",
      result, {.remedy = nccl_remedy_for(result)});
}

}  // namespace hymn
