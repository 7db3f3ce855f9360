#include "recorder/exit_note.hpp"

#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "base/own_process.hpp"

namespace hymn {
namespace {

struct Notes {
  std::mutex mutex;
  std::map<RecorderHeader*, OwnProcess> headers;
};

/// Never destroyed: it is used when the process ends.
Notes& notes() {
  static auto* notes = new Notes();
  return *notes;
}

void note_exit(int status, void*) {
  // In a child made by fork() it may be held for ever.
  std::unique_lock lock(notes().mutex, std::try_to_lock);
  for (int tries = 0; !lock.owns_lock() && tries < 1000; ++tries) {
    std::this_thread::yield();
    static_cast<void>(lock.try_lock());
  }
  if (!lock.owns_lock()) return;
  for (const auto& [header, owner] : notes().headers) {
    if (!owner.is_this()) continue;  // the rank is this process's parent
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
  notes().headers.emplace(&header_, OwnProcess());
}

ExitNote::~ExitNote() {
  std::lock_guard lock(notes().mutex);
  notes().headers.erase(&header_);
}

}  // namespace hymn
