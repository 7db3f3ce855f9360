#include "base/log.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

namespace hymn {
namespace {

void write_to_stderr(LogLevel level, int rank, std::string_view text) {
  const std::string line = rank < 0
                               ? fmt::format("hymn {}: {}\n", to_string(level), text)
                               : fmt::format("hymn[{}] {}: {}\n", rank, to_string(level), text);
  // One write for one line, so that the lines of several ranks do not mix.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

struct SinkHolder {
  std::mutex mutex;
  LogSink sink = write_to_stderr;
};

SinkHolder& holder() {
  static SinkHolder held;
  return held;
}

}  // namespace

bool is_first_time(std::string text) {
  static std::mutex mutex;
  static auto* known = new std::set<std::string>();
  std::lock_guard lock(mutex);
  return known->insert(std::move(text)).second;
}

std::string_view to_string(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::off:
      return "off";
    case LogLevel::error:
      return "error";
    case LogLevel::warning:
      return "warning";
    case LogLevel::info:
      return "info";
    case LogLevel::debug:
      return "debug";
  }
  return "unknown";
}

LogSink set_log_sink(LogSink sink) {
  std::lock_guard lock(holder().mutex);
  return std::exchange(holder().sink, sink ? std::move(sink) : LogSink(write_to_stderr));
}

void Logger::write(LogLevel level, std::string_view text) const {
  if (!enabled(level)) return;
  LogSink sink;
  {
    std::lock_guard lock(holder().mutex);
    sink = holder().sink;
  }
  sink(level, rank_, text);
}

}  // namespace hymn
