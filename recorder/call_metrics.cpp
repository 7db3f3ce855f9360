#include "recorder/call_metrics.hpp"

namespace hymn {

OperationMetrics& CallMetrics::entry(std::string_view path, OpType type) {
  auto [found, is_new] = entries_.try_emplace({std::string(path), type});
  if (is_new) {
    found->second.path = path;
    found->second.type = type;
  }
  return found->second;
}

void CallMetrics::add(std::string_view path, OpType type, std::size_t bytes, bool ok,
                      Duration total, Duration waited) {
  std::lock_guard lock(mutex_);
  OperationMetrics& metrics = entry(path, type);
  ++metrics.operations;
  metrics.failures += ok ? 0 : 1;
  metrics.bytes += bytes;
  metrics.total += total;
  metrics.waiting += waited;
}

void CallMetrics::add_waiting(std::string_view path, OpType type, Duration waited) {
  std::lock_guard lock(mutex_);
  entry(path, type).waiting += waited;
}

std::vector<OperationMetrics> CallMetrics::all() const {
  std::lock_guard lock(mutex_);
  std::vector<OperationMetrics> all;
  for (const auto& [key, metrics] : entries_) all.push_back(metrics);
  return all;
}

}  // namespace hymn
