// One request of a work, and the operation that carries it out.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "collectives/dispatch/coalesced_operation.hpp"
#include "collectives/owned_request.hpp"
#include "hymn/request.hpp"

namespace hymn::detail {

struct WorkPart {
  explicit WorkPart(const Request& given) : request(given) {}
  /// `make` returns an OwnedRequest.
  template <class Make>
  explicit WorkPart(std::in_place_t, Make&& make) : request(make()) {}
  OwnedRequest request;  ///< of coalesced ones, the whole
  Call call;
  Algorithm* algorithm = nullptr;  ///< of several, the first
  OperationStorage storage;
  CoalescedOperation* coalesced = nullptr;  ///< in there; null: it is a single call
  bool is_composed = false;                 ///< what its request writes is not the user's
  std::atomic<bool> done = false;           ///< others look at it while it is stepped
  std::uint64_t record_id = 0;
  WorkPart* next = nullptr;  ///< in a PartList
};

}  // namespace hymn::detail
