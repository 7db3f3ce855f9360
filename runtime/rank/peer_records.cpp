#include "runtime/rank/peer_records.hpp"

#include "recorder/last_call.hpp"

namespace hymn::detail {

std::optional<RecorderView> PeerRecords::of(int rank) const {
  const auto& site = settings_.site;
  const bool pretends_to_be_elsewhere = site && peers_.person(rank).host != site->host;
  if (control_ == nullptr || pretends_to_be_elsewhere) return std::nullopt;
  return control_->view_of(rank);
}

FrameSource PeerRecords::sites_of(int rank, const RecorderView& view) const {
  const PeerDirectory::Person& person = peers_.person(rank);
  return settings_.in_one_process ? FrameSource()
                                  : source_of(view, person.in_sight ? person.pid : 0);
}

std::string PeerRecords::site_of(int rank, std::uint64_t site) const {
  if (rank == settings_.rank) return site_text(site);
  const std::optional<RecorderView> view = of(rank);
  return view ? site_text(site, sites_of(rank, *view)) : "";
}

}  // namespace hymn::detail
