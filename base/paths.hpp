// The mechanisms that can carry data, by the names that HYMN_PATH and `explain` use.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/private.hpp"

namespace hymn {

namespace paths {
inline constexpr std::string_view threads =
    "threads";                                  ///< ranks of one process read each other's memory
inline constexpr std::string_view shm = "shm";  ///< ranks of one host share memory
inline constexpr std::string_view mpi = "mpi";  ///< MPI's own collectives
inline constexpr std::string_view mpi_p2p =
    "mpi_p2p";                                  ///< hymn's pairwise algorithms over MPI messages
inline constexpr std::string_view tcp = "tcp";  ///< the same over connections of hymn's own
inline constexpr std::string_view exchange =
    "exchange";  ///< the same over the Exchange of the bootstrap
inline constexpr std::string_view hierarchical =
    "hierarchical";  ///< shared memory inside each host, messages between hosts
inline constexpr std::string_view cuda_p2p =
    "cuda_p2p";  ///< hymn's kernels on memory that the GPUs of a host reach of each other
inline constexpr std::string_view nccl = "nccl";  ///< NCCL, between GPUs
inline constexpr std::string_view staged =
    "staged";  ///< from GPUs through memory of the host, where another path carries it
inline constexpr std::array all = {threads, shm,      hierarchical, mpi,  mpi_p2p,
                                   tcp,     exchange, cuda_p2p,     nccl, staged};
}  // namespace paths

/// Which paths may be used: "mpi,exchange" allows these alone, "^mpi" all but these, "" all.
class PathPolicy {
 public:
  PathPolicy() = default;
  /// Throws ConfigError for an unknown name; `source` says where the text came from.
  static PathPolicy parse(std::string_view text, std::string_view source);

  HYMN_PRIVATE bool allows(std::string_view path) const;
  /// Whether it is one of those that the text allows by their names.
  bool names(std::string_view path) const { return !names_.empty() && !forbids_ && allows(path); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::vector<std::string> names_;
  bool forbids_ = false;
};

}  // namespace hymn
