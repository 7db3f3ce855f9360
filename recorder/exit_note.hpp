// A process that exits without ending its worlds leaves a note of it for the ranks that outlive it.
#pragma once

#include "recorder/recorder_layout.hpp"

namespace hymn {

/// While it lives, an exit of the process (not one by a signal, nor by _exit) is noted in `header`,
/// with its status.
class ExitNote {
 public:
  explicit ExitNote(RecorderHeader& header);
  ExitNote(const ExitNote&) = delete;
  ExitNote& operator=(const ExitNote&) = delete;
  ~ExitNote();

 private:
  RecorderHeader& header_;
};

}  // namespace hymn
