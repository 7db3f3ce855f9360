#include "preload/recorded_request.hpp"

#include <algorithm>
#include <utility>

namespace hymn::preload {

RecordedRequest& RecordedRequest::freeing(const MPI_Request* request) {
  if (request != nullptr) freed_ = *request;
  return looking(1, request);
}

RecordedRequest& RecordedRequest::looking(int count, const MPI_Request* requests) {
  if (requests == nullptr) return *this;
  requests_ = requests;
  const MPI_Request* const asked = asked_ != nullptr ? asked_ : requests;
  for (int i = 0; i < count; ++i)
    if (asked[i] != MPI_REQUEST_NULL) watch(i, asked[i]);
  return *this;
}

void RecordedRequest::watch(int index, MPI_Request request) {
  auto open = watch_->requests().find(request);
  if (!open) return;
  Watched one{index, *std::move(open)};
  if (first_)
    others_.push_back(std::move(one));
  else
    first_ = std::move(one);
}

RecordedRequest& RecordedRequest::all_if(const int* flag) {
  flag_ = flag;
  return *this;
}

RecordedRequest& RecordedRequest::one_of(const int* index) {
  index_ = index;
  return *this;
}

RecordedRequest& RecordedRequest::some_of(const int* count, const int* indices) {
  count_ = count;
  indices_ = indices;
  return *this;
}

RecordedRequest& RecordedRequest::waiting(int count, const MPI_Request* requests) {
  looking(count, requests);
  for_all([this](const Watched& one) { watch_->record().set_waited_for(one.open.record); });
  return *this;
}

RecordedRequest& RecordedRequest::blocking() {
  is_outer_ = true;
  return *this;
}

void RecordedRequest::end(int code) {
  const CallState state = state_of(code);
  if (state == CallState::failed || flag_ == nullptr || *flag_ != 0)
    for_all([&](const Watched& one) { end_one(one, state); });
  end_outer();
  if (freed_ != MPI_REQUEST_NULL && code == MPI_SUCCESS) watch_->persistent().remove(freed_);
}

bool RecordedRequest::is_named(int index) const {
  if (index_ != nullptr) return *index_ == index;
  if (count_ == nullptr) return true;
  if (*count_ == MPI_UNDEFINED) return false;
  return std::find(indices_, indices_ + *count_, index) != indices_ + *count_;
}

// MPI leaves MPI_REQUEST_NULL where a request has ended, but for one that may be started again.
bool RecordedRequest::has_ended(const Watched& one, CallState state) const {
  if (requests_[one.index] == MPI_REQUEST_NULL) return true;
  return one.open.is_persistent && state == CallState::completed && is_named(one.index);
}

void RecordedRequest::end_one(const Watched& one, CallState state) {
  if (!has_ended(one, state)) return;
  if (watch_->requests().remove(one.open.request, one.open.record)) end_open(one.open, state);
}

}  // namespace hymn::preload
