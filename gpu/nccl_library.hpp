// NCCL as it is found on this machine.
#pragma once

#include <string>

#include "base/private.hpp"
#include "gpu/nccl_api.hpp"

namespace hymn {

struct NcclLibrary {
  nccl_api::Functions functions;
  int version = 0;      ///< 22809 for 2.28.9; 0: not known
  std::string problem;  ///< why it cannot be used; empty: it can
};

/// Judges a table that was loaded, or that `load_problem` has kept from it.
NcclLibrary judge_nccl(const nccl_api::Functions& functions, std::string load_problem);

/// Loads libnccl.so.2 at the first call, which takes milliseconds and some 200 MB of addresses, so
/// that only who wants NCCL should ask; and keeps it. Thread-safe.
HYMN_PRIVATE const NcclLibrary& loaded_nccl();

/// "2.28.9"
std::string nccl_version_text(int version);

}  // namespace hymn
