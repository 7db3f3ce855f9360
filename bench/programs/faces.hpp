// What a rank exchanges with its two neighbours in one dimension of a grid.
#pragma once

#include <span>

namespace hymn::bench {

struct Faces {
  std::span<const double> to_previous;
  std::span<double> from_previous;
  std::span<const double> to_next;
  std::span<double> from_next;
};

}  // namespace hymn::bench
