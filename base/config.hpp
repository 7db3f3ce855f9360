// Every HYMN_* environment variable, in one place.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/paths.hpp"
#include "base/private.hpp"
#include "hymn/nccl_options.hpp"
#include "hymn/settings.hpp"
#include "hymn/timeout.hpp"
#include "hymn/types.hpp"

namespace hymn {

/// How the ranks of World() find each other: by MPI, or by what a launcher has put into their
/// environment, without MPI.
enum class Bootstrap : unsigned char { mpi, environment };

std::string_view to_string(Bootstrap bootstrap) noexcept;

/// What a rank's calling thread is bound to when its world is made.
enum class BindTo : unsigned char { none, core, numa, package };

std::string_view to_string(BindTo target) noexcept;

/// What is done when an operation has failed: throw where somebody waits for it, and say so; give
/// up its group on all ranks too, even if nobody waits; or end the process by SIGABRT.
enum class OnFailure : unsigned char { report, clean_up, tear_down };

std::string_view to_string(OnFailure policy) noexcept;

/// What a dump of the flight recorder is written as: hymn's JSON, or besides what PyTorch's
/// analyser (torchfrtrace) reads.
enum class DumpFormat : unsigned char { json, torch };

std::string_view to_string(DumpFormat format) noexcept;

/// By whose rules operations go through the peer memory of GPUs: hymn's, or those of PyTorch's
/// all_reduce inside a node.
enum class P2pCompat : unsigned char { none, c10d };

std::string_view to_string(P2pCompat rules) noexcept;

/// What libhymn-preload.so does in a program: nothing, record its calls of MPI, or besides carry
/// what it can more quickly, or whatever it can.
enum class PreloadUse : unsigned char { off, watch, on, always };

std::string_view to_string(PreloadUse use) noexcept;

/// Whose floating-point sums and products a program under libhymn-preload.so gets: hymn's, the same
/// for every placement, or MPI's.
enum class PreloadBits : unsigned char { hymn, mpi };

std::string_view to_string(PreloadBits bits) noexcept;

/// Those of `group`, and where it sets nothing, of `otherwise`. Throws ConfigError for values that
/// are out of range, or do not fit each other; `source` says where they come from.
NcclOptions nccl_options(const NcclOptions& group, const NcclOptions& otherwise,
                         std::string_view source);
/// "init eager, min_ctas 2, net Socket": what is set, in one line.
std::string describe(const NcclOptions& options);

/// Where metrics are written: `<base><rank>.prom`, or `<base><rank>.json`.
struct MetricsPlace {
  std::string text;    ///< as it was given; empty: nowhere
  std::string base{};  ///< without the ending that asked for JSON
  bool json = false;
  std::optional<Duration> period{};  ///< unset: at the end only
};

/// The settings of a world, read from the environment once, when the world is made. What each one
/// means is told by the table in config.cpp, which `hymn info` prints.
struct Config {
  /// Of operations where nothing else is said, and where all members of a group have a GPU.
  static constexpr Timeout usual_timeout = std::chrono::minutes(30);
  static constexpr Timeout usual_gpu_timeout = std::chrono::minutes(10);

  Timeout timeout;  ///< unset: one of these
  LogLevel log_level = LogLevel::warning;
  bool progress_thread = false;
  std::optional<ThreadLevel> mpi_thread_level{};  ///< unset: the least that will do
  Bootstrap bootstrap = Bootstrap::mpi;
  std::string store;  ///< "host:port" of the launcher's; "": it keeps none
  std::string token;  ///< of the store by which ranks meet; "": none
  PathPolicy path;
  std::string algo;  ///< as HYMN_ALGO; the selector parses it, for it knows the names
  Reproducibility reproducibility = Reproducibility::ranks;
  std::string tuning;         ///< "": the user's cache; "off"; or a file
  std::string topology_file;  ///< "": this host as it is
  std::string gpu;            ///< "": by locality; "none"; or an index
  BindTo bind = BindTo::none;
  bool control = true;
  std::string interface;  ///< "": the one that is likely to reach the other hosts
  int tcp_streams = 1;    ///< by which large messages go between two ranks
  OnFailure on_failure = OnFailure::clean_up;
  bool blocking_wait = false;
  Timeout init_timeout;  ///< unset: the timeout of operations
  Timeout watchdog_timeout = std::chrono::minutes(5);
  Timeout wait_report = std::chrono::seconds(30);  ///< none: nothing is said of long waits
  std::size_t recorder_size = 512;                 ///< calls that are kept; 0: none
  std::size_t recorder_frames = 0;    ///< return addresses kept of each, beside the call site
  std::size_t recorder_counts = 128;  ///< sizes of blocks kept of each
  bool recorder_timing = false;       ///< whether starts are recorded, too
  std::string dump;                   ///< dump files are this and the rank; "": none are written
  DumpFormat dump_format = DumpFormat::json;
  CheckLevel checks = CheckLevel::off;
  bool nan_check = false;
  MetricsPlace metrics;
  NcclOptions nccl;  ///< of groups that do not say otherwise
  bool high_priority_stream = false;
  P2pCompat p2p_compat = P2pCompat::none;
  std::size_t chunk_limit = std::size_t{1} << 30;
  PreloadUse preload = PreloadUse::on;
  bool preload_report = false;
  PreloadBits preload_bits = PreloadBits::hymn;

  /// Reads the environment. Throws ConfigError for a malformed value, which it quotes, and for a
  /// HYMN_* variable that does not exist.
  HYMN_PRIVATE static Config from_environment();
  /// What MPI is asked for where hymn initialises it, with a thread of hymn's own that moves
  /// operations, or without.
  HYMN_PRIVATE ThreadLevel wanted_thread_level(bool own_thread) const;
  /// The same from "NAME=value" strings; others than HYMN_* are passed over.
  static Config parse(const std::vector<std::string>& environment);

  /// All variables with the values in this configuration.
  std::vector<Setting> describe() const;
};

}  // namespace hymn
