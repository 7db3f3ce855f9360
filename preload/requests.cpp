#include "preload/requests.hpp"

#include <utility>

namespace hymn::preload {

// Those without a record are free: what is removed leaves no mark, so all places are looked at.
Requests::Open* Requests::slot_of(MPI_Request request) const {
  const std::size_t first = place_of(request);
  for (std::size_t i = 0; i < looks; ++i) {
    Open& open = open_[(first + i) % places];
    if (open.record != 0 && open.request == request) return &open;
  }
  return nullptr;
}

Requests::Open* Requests::free_slot_of(MPI_Request request) const {
  const std::size_t first = place_of(request);
  for (std::size_t i = 0; i < looks; ++i) {
    Open& open = open_[(first + i) % places];
    if (open.record == 0) return &open;
  }
  return nullptr;
}

// Numbers are kept plus one. Groups end outside of the lock: what is taken out is handed on.
Requests::Added Requests::add(Open open) {
  ++open.record;
  const Lock lock(busy_, may_overlap_);
  if (Open* const same = slot_of(open.request)) {
    Open ended = std::exchange(*same, std::move(open));
    --ended.record;
    return {true, std::move(ended)};
  }
  Open* const place = free_slot_of(open.request);
  if (place == nullptr) return {};
  *place = std::move(open);
  ++count_;
  return {true, std::nullopt};
}

std::optional<Requests::Open> Requests::find(MPI_Request request) const {
  const Lock lock(busy_, may_overlap_);
  if (count_ == 0) return std::nullopt;
  const Open* const open = slot_of(request);
  if (open == nullptr) return std::nullopt;
  return Open{open->request, open->record - 1, open->group, open->is_persistent};
}

bool Requests::remove(MPI_Request request, std::uint64_t record) {
  Open removed;
  const Lock lock(busy_, may_overlap_);
  Open* const open = slot_of(request);
  if (open == nullptr || open->record != record + 1) return false;
  removed = std::exchange(*open, Open{});
  --count_;
  return true;
}

}  // namespace hymn::preload
