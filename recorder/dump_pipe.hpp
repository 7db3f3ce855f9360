// A named pipe through which anybody may ask a rank for a dump: `echo 1 > <base><rank>.pipe`.
#pragma once

#include <string>
#include <string_view>

#include "base/descriptor.hpp"

namespace hymn {

class DumpPipe {
 public:
  /// Makes the pipe, for its owner alone. One that a process of the same user has left is replaced;
  /// anything else with that name is a ResourceError, as is a folder that cannot be written to.
  DumpPipe(std::string_view base, int rank);
  DumpPipe(const DumpPipe&) = delete;
  DumpPipe& operator=(const DumpPipe&) = delete;
  /// Removes it, unless somebody has put another one in its place.
  ~DumpPipe();

  const std::string& path() const { return path_; }
  /// Can be read from when somebody has written; for poll().
  int descriptor() const { return pipe_.number(); }
  /// Whether somebody has written since the last time. Never blocks.
  bool asked();

 private:
  std::string path_;
  Descriptor pipe_;
};

/// Removes the pipe of a rank that could not do so itself. Anything else with that name stays.
void remove_pipe_of(std::string_view base, int rank) noexcept;

}  // namespace hymn
