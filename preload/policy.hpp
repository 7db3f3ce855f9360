// Which collectives hymn carries more quickly than MPI.
#pragma once

#include <cstddef>

#include "preload/calls.hpp"
#include "preload/reasons.hpp"

namespace hymn::preload {

/// What all ranks of a collective see alike.
struct Sight {
  Call call;
  int ranks = 0;
  std::size_t hosts = 1;
  /// Of what each rank gives or takes, as it travels; of blocks, one block. Where ranks have
  /// different ones: all together, or 0 where nobody knows that.
  std::size_t bytes = 0;
};

/// Reason::carried, or why not.
Reason judge(const Sight& sight);

}  // namespace hymn::preload
