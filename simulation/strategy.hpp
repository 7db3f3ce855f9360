// Who goes on where several threads could.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "hymn/simulation.hpp"

namespace hymn::sim {

/// Where a thread gives others a turn.
enum class Point : std::uint8_t {
  lock,   ///< before it takes a lock
  shown,  ///< it has shown others something
  waits,  ///< it cannot go on itself
};

struct Turn {
  Point point = Point::waits;
  int current = 0;           ///< whose turn it was
  std::uint64_t points = 0;  ///< as those of that thread
  std::uint64_t waits = 0;
  std::span<const int> able{};  ///< ids, ascending; two at least
};

/// The one that goes on if nothing is said: who was at it, else the next in the order of numbers.
int usual_next(const Turn& turn);
/// The next in the order of numbers.
int next_after(const Turn& turn);

class Strategy {
 public:
  Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy() = default;
  virtual int next(const Turn& turn) = 0;
};

std::unique_ptr<Strategy> make_strategy(const SimulationOptions& options);

}  // namespace hymn::sim
