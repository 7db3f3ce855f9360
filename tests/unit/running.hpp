// Operations that a test steps itself.
#pragma once

#include "collectives/operation.hpp"
#include "hymn/request.hpp"

namespace hymn::test {

/// One operation of one rank.
struct Running {
  Request request;
  Call call;
  OperationStorage storage;
  bool done = false;
};

}  // namespace hymn::test
