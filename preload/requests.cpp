#include "preload/requests.hpp"

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

// Numbers are kept plus one.
bool Requests::add(const Open& open) {
  const Lock lock(busy_);
  const std::size_t first = place_of(open.request);
  for (std::size_t i = 0; i < looks; ++i) {
    Open& place = open_[(first + i) % places];
    if (place.record != 0) continue;
    place = open;
    ++place.record;
    ++count_;
    return true;
  }
  return false;
}

std::optional<Requests::Open> Requests::find(MPI_Request request) const {
  const Lock lock(busy_);
  if (count_ == 0) return std::nullopt;
  const Open* const open = slot_of(request);
  if (open == nullptr) return std::nullopt;
  return Open{open->request, open->record - 1, open->in_flight};
}

void Requests::remove(MPI_Request request) {
  const Lock lock(busy_);
  Open* const open = slot_of(request);
  if (open == nullptr) return;
  open->record = 0;
  --count_;
}

}  // namespace hymn::preload
