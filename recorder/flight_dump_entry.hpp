// One call in a dump.
#pragma once

#include <nlohmann/json.hpp>

#include "recorder/call_frames.hpp"
#include "recorder/recorder_clock.hpp"
#include "recorder/recorder_view.hpp"

namespace hymn {

// Its members keep the order in which they were added: people read dumps, too.
using DumpJson = nlohmann::ordered_json;

/// What is kept of a call beside its record.
struct EntryDetails {
  const std::vector<std::uint64_t>& callers;
  const BlockCounts& counts;
  const CallShapes& shapes;
};

/// What all entries of one dump share.
struct EntryWriter {
  const RecorderView& view;
  const StampClock& clock;
  const FrameSource& frames;
  bool symbols = true;

  DumpJson write(const CallRecord& call, const EntryDetails& details,
                 const std::string& description) const;
};

/// null: none.
DumpJson timeout_ms(std::int64_t timeout_ns);

}  // namespace hymn
