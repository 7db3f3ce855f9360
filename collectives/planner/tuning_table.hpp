// Costs that `hymn tune` has measured, kept as JSON (docs/tuning.md tells the format).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/private.hpp"
#include "hymn/request.hpp"

namespace hymn {

/// Times of one algorithm for one collective and one shape of group, by size.
struct TuningRow {
  std::string path;
  std::string algorithm;
  OpType type = OpType::all_reduce;
  DataType dtype = DataType::float32;
  int ranks = 0;
  int hosts = 0;
  struct Point {
    std::size_t bytes = 0;  ///< as PlanQuery::bytes
    double seconds = 0;     ///< median
    friend bool operator==(const Point&, const Point&) = default;
  };
  std::vector<Point> points;             ///< ascending, no size twice
  MemoryKind memory = MemoryKind::host;  ///< or device
  friend bool operator==(const TuningRow&, const TuningRow&) = default;
};

class TuningTable {
 public:
  static constexpr int version = 1;

  std::string machine;   ///< fingerprint of the machines it was measured on
  std::string measured;  ///< the date, "2026-11-21"
  std::string library;   ///< hymn's version and MPI's name
  std::vector<TuningRow> rows;

  /// Throws ConfigError that names `source` and what is wrong: not JSON, another version, too
  /// large, values out of range.
  static TuningTable parse(std::string_view json, const std::string& source);
  std::string to_json() const;

  /// Between two measured sizes by interpolation, above them by the last slope, below them the time
  /// of the smallest; nothing where the algorithm was not measured for this collective and shape
  /// of group. The type counts only where values are combined.
  std::optional<double> seconds(std::string_view path, std::string_view algorithm, OpType type,
                                DataType dtype, int ranks, int hosts, std::size_t bytes,
                                MemoryKind memory = MemoryKind::host) const;
  /// Whether anything of the path has been measured; and on so many ranks, all on one host or not.
  bool knows(std::string_view path) const;
  bool knows(std::string_view path, int ranks, bool one_host) const;
  friend bool operator==(const TuningTable&, const TuningTable&) = default;
};

/// A table that a job may use, or why it may not.
struct TuningChoice {
  std::shared_ptr<const TuningTable> table;  ///< null: none
  std::string problem;                       ///< empty: none, or there is no table
};
/// What a table's `text` is good for in a job on machines with these fingerprints that runs this
/// `library`. Damaged, foreign and stale tables are a problem. Depends on nothing but its
/// arguments, so ranks that are given the same come to the same. Never throws for what is in
/// `text`.
HYMN_PRIVATE TuningChoice choose_tuning(const std::optional<std::string>& text,
                                        const std::string& source,
                                        const std::vector<std::string>& machines,
                                        const std::string& library);

/// "$XDG_CACHE_HOME/hymn/tuning-<fingerprint>.json", or below ~/.cache; empty without a home.
HYMN_PRIVATE std::string tuning_file_for(const std::string& fingerprint);
/// Throws ResourceError where write_tuning_file would, but for what only the content can tell.
HYMN_PRIVATE void check_tuning_file(const std::string& path);
/// Written beside and renamed, so that no reader sees half of it. Throws ResourceError.
HYMN_PRIVATE void write_tuning_file(const TuningTable& table, const std::string& path);
/// The file's text, bounded (1 MiB); nothing when it is not there. Throws ConfigError when it
/// cannot be read.
HYMN_PRIVATE std::optional<std::string> read_tuning_text(const std::string& path);

}  // namespace hymn
