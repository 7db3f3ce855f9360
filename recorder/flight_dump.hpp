// The flight recorder's dump: what a rank knows, as one JSON object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/private.hpp"
#include "recorder/group_registry.hpp"
#include "recorder/recorder_view.hpp"

namespace hymn {

/// What a rank knows of another one.
struct DumpPeer {
  int rank = 0;
  std::string state;  ///< "alive", "left", "dead", "stalled" or "lost"
  std::string host;
  int pid = 0;
  std::string detail;
};

/// A call outside of hymn that this rank may be stuck in.
struct DumpOuterCall {
  std::string name;
  std::int64_t since_ns = 0;  ///< wall clock
};

/// What a dump is to hold beside what the recorder's memory tells.
struct DumpRequest {
  bool collectives = true;
  bool only_active = false;
  bool symbols = true;
  std::string trigger = "call";
  std::string reason;
  /// The rank that writes, where that is not the rank whose memory it is, which then has died.
  std::optional<int> written_by;
  int pid = 0;  ///< of the process whose memory it is, where that is another one that lives
  std::vector<KnownGroup> groups;  ///< that the *writer* knows
  std::vector<DumpPeer> peers;
  std::optional<DumpOuterCall> in_call;
};

/// Takes no lock that a call of the application may hold, and waits for nothing.
HYMN_PRIVATE std::string dump_json(const RecorderView& view, const DumpRequest& request);

}  // namespace hymn
