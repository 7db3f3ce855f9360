// How groups use NCCL: hymn's own settings, without any type of NCCL.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "hymn/export.hpp"
#include "hymn/timeout.hpp"

namespace hymn {

/// When the NCCL communicator of a group is created.
enum class NcclInit : std::uint8_t {
  lazy,        ///< at the first use of the group on the memory of GPUs
  eager,       ///< when the group is made, which waits until it is ready
  background,  ///< it is begun when the group is made, and waited for at the first use
};

/// "lazy", "eager" or "background".
HYMN_API std::string_view to_string(NcclInit init) noexcept;

/// What is not set comes from the HYMN_NCCL_* variables, and else from NCCL itself. The same on all
/// members of a group. docs/gpu.md tells what each one does.
struct NcclOptions {
  std::optional<NcclInit> init{};
  std::optional<int>
      min_ctas{};  ///< thread blocks (CTAs) on the GPU for one operation, from 1 to 64
  std::optional<int> max_ctas{};  ///< the same; not below min_ctas
  std::optional<int> cga_size{};  ///< thread blocks in a cluster (CGA), from 0 to 8
  std::string net_name{};         ///< "Socket", "IB", or that of a plugin; empty: not set
  /// Whether NCCL's calls may block. Communicators are made on a thread of their own anyway, so
  /// that limits are kept; a first launch that connects GPUs may then hold its caller up.
  std::optional<bool> blocking{};
  /// Whether float16 and bfloat16 are reduced in float32, and the results rounded once, instead of
  /// at each hop (FSDP's reduce_dtype=float32). It takes twice the traffic and, while it goes on,
  /// twice the bytes of the input on the GPU. A ConfigError where a member's GPU or build cannot.
  std::optional<bool> reduce_in_float32{};
  /// Of no effect, as in other libraries that have one here: GroupOptions::timeout is the limit of
  /// all paths alike. Where this is set and that is not, a warning says so.
  Timeout timeout{};
};

}  // namespace hymn
