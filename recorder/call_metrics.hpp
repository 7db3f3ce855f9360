// Counts operations by path and kind.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hymn/world.hpp"

namespace hymn {

/// Thread-safe.
class CallMetrics {
 public:
  /// One operation has ended. `waited`: how long its caller was blocked in it.
  void add(std::string_view path, OpType type, std::size_t bytes, bool ok, Duration total,
           Duration waited);
  /// A thread was blocked in waiting for an operation.
  void add_waiting(std::string_view path, OpType type, Duration waited);
  /// By path and kind.
  std::vector<OperationMetrics> all() const;

 private:
  OperationMetrics& entry(std::string_view path, OpType type);

  mutable std::mutex mutex_;
  std::map<std::pair<std::string, OpType>, OperationMetrics> entries_;
};

/// `dropped`: messages that nobody could receive any more.
std::string metrics_json(const std::vector<OperationMetrics>& metrics, int rank,
                         std::uint64_t dropped);
/// In Prometheus' text format, version 0.0.4.
std::string metrics_prometheus(const std::vector<OperationMetrics>& metrics, int rank,
                               std::uint64_t dropped);

}  // namespace hymn
