// What the other ranks of a host record of their calls, as this rank can read it.
#pragma once

#include <optional>
#include <string>

#include "recorder/call_frames.hpp"
#include "recorder/recorder_view.hpp"
#include "runtime/rank/control_plane.hpp"
#include "runtime/rank/peer_directory.hpp"
#include "runtime/rank/world_settings.hpp"

namespace hymn::detail {

class PeerRecords {
 public:
  /// `control`: by which they are found; null: none can be read.
  PeerRecords(const WorldSettings& settings, const PeerDirectory& peers,
              const ControlPlane* control)
      : settings_(settings), peers_(peers), control_(control) {}

  /// What another rank of this host records now; nothing where that cannot be read.
  std::optional<RecorderView> of(int rank) const;
  /// What another rank has recorded, dead or alive; null where that cannot be read.
  const PeerRecorder* recorder_of(int rank) const {
    return control_ == nullptr ? nullptr : control_->recorder_of(rank);
  }
  /// Where the places in its program are looked up.
  FrameSource sites_of(int rank, const RecorderView& view) const;
  /// As site_text(), of a call that a rank of this host has made.
  std::string site_of(int rank, std::uint64_t site) const;

 private:
  const WorldSettings& settings_;
  const PeerDirectory& peers_;
  const ControlPlane* control_;
};

}  // namespace hymn::detail
