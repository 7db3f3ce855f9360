#include "recorder/metrics_file.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "recorder/dump_file.hpp"

namespace hymn {

MetricsFile::MetricsFile(const MetricsPlace& place, int rank, const CallMetrics& metrics,
                         std::function<std::uint64_t()> dropped, const Logger& logger)
    : place_(place),
      rank_(rank),
      metrics_(metrics),
      dropped_(std::move(dropped)),
      logger_(logger),
      path_(fmt::format("{}{}.{}", place.base, rank, place.json ? "json" : "prom")) {}

void MetricsFile::tick(TimePoint now) {
  if (!place_.period) return;
  {
    std::lock_guard lock(mutex_);
    if (!next_) next_ = now + *place_.period;
    if (now < *next_) return;
    next_ = now + *place_.period;
  }
  write();
}

void MetricsFile::write() {
  std::lock_guard lock(mutex_);
  const auto all = metrics_.all();
  const std::string text = place_.json ? metrics_json(all, rank_, dropped_())
                                       : metrics_prometheus(all, rank_, dropped_());
  const int error = replace_file(path_, text);
  if (error == 0 || has_complained_) return;
  has_complained_ = true;
  logger_.warning(
      fmt::format("the metrics {} cannot be written: {}; let HYMN_METRICS name a path in a folder "
                  "that exists and is writable",
                  path_, std::strerror(error)));
}

}  // namespace hymn
