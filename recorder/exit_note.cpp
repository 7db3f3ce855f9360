#include "recorder/exit_note.hpp"

#include <cstdlib>
#include <mutex>
#include <set>

namespace hymn {
namespace {

struct Notes {
  std::mutex mutex;
  std::set<RecorderHeader*> headers;
};

/// Never destroyed: it is used when the process ends.
Notes& notes() {
  static auto* notes = new Notes();
  return *notes;
}

void note_exit(int status, void*) {
  std::lock_guard lock(notes().mutex);
  for (RecorderHeader* header : notes().headers) {
    std::uint32_t none = 0;
    header->farewell.compare_exchange_strong(
        none, RecorderHeader::farewell_exit + static_cast<std::uint32_t>(status & 0xff),
        std::memory_order_acq_rel);
  }
}

}  // namespace

ExitNote::ExitNote(RecorderHeader& header) : header_(header) {
  // Unlike atexit() this one tells the status.
  static const int registered = on_exit(note_exit, nullptr);
  static_cast<void>(registered);
  std::lock_guard lock(notes().mutex);
  notes().headers.insert(&header_);
}

ExitNote::~ExitNote() {
  std::lock_guard lock(notes().mutex);
  notes().headers.erase(&header_);
}

}  // namespace hymn
