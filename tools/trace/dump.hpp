// One rank's dump of the flight recorder as plain values, as far as `hymn trace` needs it.
//
// All text is fit for a terminal, and file names have lost their folders. Numbers are as they were
// written: anything may be negative or absurd, but for `rank` and `world_size`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hymn::trace {

enum class EntryState : std::uint8_t { scheduled, started, completed, failed };

/// Where in the program an operation was called. Empty or 0: not known.
struct CallSite {
  std::string function;
  std::string file;
  std::int64_t line = 0;
  std::string address;
  friend bool operator==(const CallSite&, const CallSite&) = default;
};

/// Buffers of one side of an operation.
struct BufferList {
  std::string sizes;           ///< "[[12], [3, 4]]"
  std::uint64_t elements = 0;  ///< of all together; the largest number where it is more
  std::string dtype;           ///< "float32"; several: "float32, int64"
};

struct Entry {
  std::int64_t record_id = -1;
  std::string group;  ///< uid
  std::string op;
  std::string reduce_op;
  std::string signature;
  std::string path;
  std::string algorithm;
  std::optional<std::int64_t> root;
  std::optional<std::int64_t> peer;  ///< global rank; negative: any
  std::optional<std::int64_t> tag;
  bool is_p2p = false;
  bool retired = false;
  bool waited_for = true;  ///< while it has not ended: a thread waits in it
  bool undriven = false;   ///< while it has not ended: nothing has moved it on of late
  bool on_gpu = false;     ///< a GPU moves it on
  bool shadowed = false;   ///< by a rank that has run out of input
  EntryState state = EntryState::scheduled;
  std::int64_t collective_seq = 0;
  std::int64_t p2p_seq = 0;
  std::int64_t op_id = 0;
  BufferList input;
  BufferList output;
  std::optional<std::int64_t> created_ns;
  std::optional<std::int64_t> started_ns;
  std::optional<std::int64_t> completed_ns;
  std::optional<double> duration_ms;
  CallSite site;
};

struct GroupConfig {
  std::string uid;
  std::string name;
  std::string description;
  std::string label;
  std::optional<std::vector<std::int64_t>> ranks;
  std::optional<std::int64_t> collective_seq;
  std::optional<std::int64_t> completed_seq;
  /// The rank has run out of input, and shadows the others since so many collectives.
  std::optional<std::int64_t> shadows_since;
  std::optional<std::string> aborted;
};

/// What the writer knew of another rank.
struct PeerReport {
  std::int64_t rank = -1;
  std::string state;  ///< "alive", "left", "dead", "stalled", "lost"
  std::string host;
  std::int64_t pid = 0;
  std::string detail;
};

struct CallReport {
  std::string name;
  std::optional<std::int64_t> since_ns;
};

/// What the rank met others for: to make or shrink a group, or to end the world.
struct MakingReport {
  std::string kind;  ///< "new_group", "shrink" or "end"
  std::string uid;   ///< of the group that is made, or shrunk
  std::string tag;   ///< of a new group, a long one without its middle; "": none, or not told
  std::optional<std::vector<std::int64_t>> ranks;
  std::optional<std::int64_t> since_ns;
  std::optional<std::int64_t> given_up_ns;
};

struct Dump {
  std::string file;        ///< where it was read from
  bool truncated = false;  ///< the file ends, or is damaged, among the entries: later ones are lost
  std::string version;
  std::string hymn_version;
  std::string job;
  int rank = -1;       ///< 0 … world_size - 1
  int world_size = 0;  ///< 1 … most_ranks
  std::string host;
  std::int64_t pid = 0;
  std::string program;
  std::int64_t written_by = -1;
  std::string trigger;
  std::string reason;
  std::int64_t time_ns = 0;
  bool timing = false;
  bool progress_thread = false;  ///< a thread of hymn's moves on what the rank has started
  std::int64_t recorded = 0;
  bool has_entries = false;  ///< operations may be left out of a dump
  std::vector<GroupConfig> groups;
  std::vector<PeerReport> peers;
  std::optional<CallReport> in_call;
  std::optional<MakingReport> making;
  std::vector<Entry> entries;  ///< oldest first
};

constexpr int most_ranks = 1 << 20;

}  // namespace hymn::trace
