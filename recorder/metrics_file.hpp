// Writes metrics to the file that HYMN_METRICS names.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "recorder/call_metrics.hpp"

namespace hymn {

/// Thread-safe. What goes wrong is logged, once.
class MetricsFile {
 public:
  /// `metrics`, and what `dropped` asks, outlive this.
  MetricsFile(const MetricsPlace& place, int rank, const CallMetrics& metrics,
              std::function<std::uint64_t()> dropped, const Logger& logger);

  const std::string& path() const { return path_; }
  /// Now and then: writes when the period has passed since the first tick, or since it last did.
  void tick(TimePoint now);
  /// Replaces the file in one step.
  void write();

 private:
  MetricsPlace place_;
  int rank_;
  const CallMetrics& metrics_;
  std::function<std::uint64_t()> dropped_;
  Logger logger_;
  std::string path_;
  std::mutex mutex_;  // guards what follows, and the file
  std::optional<TimePoint> next_;
  bool has_complained_ = false;
};

}  // namespace hymn
