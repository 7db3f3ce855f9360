// A record of calls that are not hymn's own, as of MPI's by libhymn-preload.so: where `hymn trace`
// finds those of worlds, and in the same form.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/private.hpp"
#include "hymn/timeout.hpp"
#include "recorder/call_ring.hpp"
#include "recorder/flight_dump.hpp"
#include "recorder/recorder_layout.hpp"

namespace hymn {

/// As tag_of(): of a receive that takes messages of all tags.
inline constexpr std::uint32_t every_tag = 0xffffffff;

/// Thread-safe, but for its end.
class OutsideRecord {
 public:
  struct Setup {
    int rank = 0;
    int world_size = 1;
    std::size_t entries = 512;
    std::size_t frames = 0;
    bool timing = false;
    bool by_many = true;    ///< several threads may record at the same time
    std::uint64_t job = 0;  ///< the same on all ranks, and no other job's
  };
  HYMN_PRIVATE explicit OutsideRecord(const Setup& setup);
  HYMN_PRIVATE ~OutsideRecord();
  OutsideRecord(const OutsideRecord&) = delete;
  OutsideRecord& operator=(const OutsideRecord&) = delete;

  /// The line of a group, for the caller to count there.
  HYMN_PRIVATE GroupLine& add_group(std::uint64_t uid, std::string_view description,
                                    std::span<const int> members);
  HYMN_PRIVATE void rename_group(std::uint64_t uid, std::string_view description);
  HYMN_PRIVATE void end_group(std::uint64_t uid);

  /// The number of its record. Inside of its caller, as CallRing::fill().
  HYMN_INLINE std::uint64_t begin(const CallRecord& call) { return ring_->record(call); }
  void end(std::uint64_t id, CallState state) {
    ring_->set_ended_at(id, state, true, processor_stamp());
  }
  HYMN_PRIVATE void set_waited_for(std::uint64_t id);
  /// A call that is on no group; null: it has come back.
  HYMN_PRIVATE void set_outer_call(const char* name);

  /// What a thread waits in now.
  struct Wait {
    std::uint64_t id = 0;  ///< no other wait's
    std::string what;      ///< "recv 0<-1 of group 'MPI_COMM_WORLD'", or the name of an outer call
    Duration waited{};
  };
  /// That for which it has waited longest; nothing: none waits.
  HYMN_PRIVATE std::optional<Wait> longest_wait() const;

  HYMN_PRIVATE std::string dump(std::string_view trigger, std::string_view reason,
                                std::vector<DumpPeer> peers) const;
  /// This rank has come to the end of its job.
  HYMN_PRIVATE void say_goodbye();

 private:
  std::optional<Wait> outer_wait() const;

  struct Parts;
  std::unique_ptr<Parts> parts_;
  CallRing* const ring_;  ///< of them
};

}  // namespace hymn
