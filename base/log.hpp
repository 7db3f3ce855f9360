// Messages to the user, stamped with the rank, into a sink that a test can replace.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/private.hpp"

namespace hymn {

enum class LogLevel : unsigned char { off, error, warning, info, debug };

std::string_view to_string(LogLevel level) noexcept;

/// Writes one message; `rank` is -1 before ranks are known. May be called from any thread.
using LogSink = std::function<void(LogLevel level, int rank, std::string_view text)>;

/// Replaces the sink of this process and returns the one before; an empty sink restores stderr.
LogSink set_log_sink(LogSink sink);

/// True for the first time that this process asks with this text: for what is told once. Any
/// thread.
bool is_first_time(std::string text);

/// A level and a rank: what a world logs with. A value.
class Logger {
 public:
  Logger() = default;
  Logger(LogLevel level, int rank) : level_(level), rank_(rank) {}

  bool enabled(LogLevel level) const { return level <= level_; }
  void error(std::string_view text) const { write(LogLevel::error, text); }
  void warning(std::string_view text) const { write(LogLevel::warning, text); }
  /// `quietly`: it is told elsewhere, and here only to who wants to know all.
  void warning(std::string_view text, bool quietly) const {
    write(quietly ? LogLevel::info : LogLevel::warning, text);
  }
  void info(std::string_view text) const { write(LogLevel::info, text); }
  void debug(std::string_view text) const { write(LogLevel::debug, text); }

 private:
  HYMN_PRIVATE void write(LogLevel level, std::string_view text) const;

  LogLevel level_ = LogLevel::warning;
  int rank_ = -1;
};

}  // namespace hymn
