// Collectives of communicators of one rank.
#pragma once

#include "preload/attempt.hpp"

namespace hymn::preload {

// One for each collective that is carried. What is not plain is MPI's: Reason::one_rank.
#define HYMN_CALL(kind, name, parameters, facts, ...) \
  HYMN_ALONE_##kind(name, HYMN_UNPACK parameters)
#define HYMN_UNPACK(...) __VA_ARGS__
#define HYMN_ALONE_carried(name, ...) Outcome alone(Tag<Call::name>, Attempt& call, __VA_ARGS__);
#define HYMN_ALONE_left(...)
#define HYMN_ALONE_message(...)
#define HYMN_ALONE_completion(...)
#define HYMN_ALONE_poll(...)
#define HYMN_ALONE_other(...)
#include "preload/calls.inc"
#undef HYMN_CALL
#undef HYMN_UNPACK
#undef HYMN_ALONE_carried
#undef HYMN_ALONE_left
#undef HYMN_ALONE_message
#undef HYMN_ALONE_completion
#undef HYMN_ALONE_poll
#undef HYMN_ALONE_other

}  // namespace hymn::preload
