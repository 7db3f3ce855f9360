// The few questions that settle what nearly all calls ask.
#pragma once

#include "collectives/algorithm.hpp"

namespace hymn {

/// True for a collective with plain buffers in host memory, of one dtype, that fit each other and
/// are the same or apart, and for a send or recv of such a buffer: validate() finds nothing wrong
/// with it then. False means only that it has to be asked. It was a tenth of the time of a small
/// all_reduce.
bool is_plainly_right(const Request& request, GroupShape shape, int root);

}  // namespace hymn
