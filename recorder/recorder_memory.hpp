// The memory of the flight recorder: who this rank is, its groups, and its last calls, where other
// processes of the host can read it even when this one has died.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/own_process.hpp"
#include "p2p/shm/nameless_memory.hpp"
#include "recorder/call_ring.hpp"
#include "recorder/exit_note.hpp"
#include "recorder/named_sites.hpp"
#include "recorder/recorder_layout.hpp"
#include "recorder/recorder_view.hpp"

namespace hymn {

class RecorderMemory;

/// A group's line while the group lives. Where the table is full it is one that only this process
/// sees.
class GroupLineLease {
 public:
  GroupLineLease() = default;
  GroupLineLease(RecorderMemory* owner, GroupLine* line) : owner_(owner), line_(line) {}
  explicit GroupLineLease(std::unique_ptr<GroupLine> own)
      : own_(std::move(own)), line_(own_.get()) {}
  GroupLineLease(GroupLineLease&& other) noexcept { *this = std::move(other); }
  GroupLineLease& operator=(GroupLineLease&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(own_, other.own_);
    std::swap(line_, other.line_);
    return *this;
  }
  ~GroupLineLease();

  GroupLine* get() const { return line_; }
  GroupLine* operator->() const { return line_; }
  GroupLine& operator*() const { return *line_; }

 private:
  RecorderMemory* owner_ = nullptr;
  std::unique_ptr<GroupLine> own_;
  GroupLine* line_ = nullptr;
};

/// Memory of a recorder that lives as long as somebody looks at it.
struct SharedRecord {
  std::shared_ptr<const std::byte> begin{};
  std::size_t bytes = 0;
};

/// One for each world of a process.
class RecorderMemory {
 public:
  struct Setup {
    int rank = 0;
    int world_size = 1;
    CallRing::Size ring{};
    CallRing::Writers writers = CallRing::Writers::many;
    bool timing = false;
    bool for_peers = true;  ///< other processes may want to see it
  };
  /// Where shared memory cannot be had it is memory of this process alone, and key() is empty.
  explicit RecorderMemory(const Setup& setup);
  RecorderMemory(const RecorderMemory&) = delete;
  RecorderMemory& operator=(const RecorderMemory&) = delete;

  CallRing& ring() { return ring_; }
  const CallRing& ring() const { return ring_; }
  /// All of it, as peers see it.
  RecorderView view() const { return RecorderView(bytes()); }
  /// How peers on this host find it; empty: they cannot.
  const std::optional<MemoryKey>& key() const { return key_; }

  /// For other ranks that are threads of this process; null where processes share it.
  SharedRecord share() const { return {heap_, bytes_}; }

  /// A line for a new group. `shown`: in the table, where there is still room.
  GroupLineLease take_line(std::uint64_t uid, std::string_view description,
                           std::span<const int> members, bool shown);
  /// Its group has ended. It goes on telling how far this rank had come there, until another group
  /// needs it: members that are not as far would take a rank that leaves next for the culprit.
  void give_back(GroupLine& line);
  /// The number of an algorithm's path and method; 0 when the table is full.
  std::uint16_t method_number(std::string_view path, std::string_view method);
  void set_job(std::uint64_t job) { header_->job.store(job, std::memory_order_release); }
  /// A call of another library in which this rank may be stuck; "": it has come back.
  void set_outer_call(std::string_view name, std::int64_t since_ns) {
    header_->outer_since_ns.store(since_ns, std::memory_order_release);
    header_->outer_call.store(name);
  }
  /// A thread of hymn's moves on what this rank has started.
  void set_progress_thread(bool has_one) {
    header_->progress_thread.store(has_one ? 1 : 0, std::memory_order_release);
  }
  /// This rank begins to make a group, or has made it, or given that up. Of several threads that
  /// make groups the last to begin is told of. In the same way it shrinks one, or ends its world.
  void begin_making(std::uint64_t uid, std::span<const int> members,
                    MakingKind kind = MakingKind::new_group, std::string_view tag = {});
  void end_making(std::uint64_t uid, bool is_made);
  /// A dump of this rank is being written.
  void note_dump();
  /// This rank has ended its world; or its process exits without that. The first stays.
  void say_farewell(std::uint32_t farewell) {
    std::uint32_t none = 0;
    header_->farewell.compare_exchange_strong(none, farewell, std::memory_order_acq_rel);
  }

 private:
  static std::string members_text(std::span<const int> members);
  std::span<std::byte> bytes() const { return {begin_, bytes_}; }
  bool make_shared();
  void introduce(const Setup& setup);
  /// Of those that no group has; null: there is none. Needs the lock.
  GroupLine* take_spare(std::uint64_t uid);

  std::size_t bytes_;
  Descriptor file_;
  SharedMapping mapping_;
  std::shared_ptr<std::byte> heap_;
  std::byte* begin_ = nullptr;
  RecorderHeader* header_ = nullptr;
  CallRing ring_;
  std::optional<MemoryKey> key_;
  std::optional<ExitNote> exit_note_;
  std::optional<NamedSitesCopy> named_sites_;
  // What a child made by fork() writes here is for nobody.
  ForkWatch fork_watch_{[this] {
    if (file_) mapping_.copy(file_);
  }};
  std::mutex mutex_;              // of whoever makes and ends groups
  std::deque<GroupLine*> spare_;  // lines that no group has: unused ones, then the oldest first
};

/// Another rank's memory, mapped to be read: it stays readable when that rank has died.
class PeerRecorder {
 public:
  /// Throws ResourceError: it cannot be found, or is no recorder's memory.
  explicit PeerRecorder(const MemoryKey& key);
  RecorderView view() const { return RecorderView({mapping_.base(), mapping_.bytes()}); }

 private:
  SharedMapping mapping_;
};

}  // namespace hymn
