// What is learnt, and how; the same on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace parameter_worker {

struct Settings {
  std::string folder = "/usr/share/common-licenses";
  int workers = 2;                ///< the last ranks; all others are trainers
  std::uint32_t rows = 1u << 18;  ///< of the embedding
  std::uint32_t width = 32;       ///< numbers in a row
  std::size_t worker_mb = 24;     ///< what a worker gives of its memory
  int epochs = 4;                 ///< how often all of the text is seen
  std::size_t batch = 64;         ///< words of one trainer in a step
  int window = 4;                 ///< neighbours on either side
  int counterexamples = 5;        ///< for each neighbour
  float rate = 0.1f;
  std::uint64_t seed = 1;
  int lose_rank = -1;         ///< a trainer that kills itself
  std::int64_t lose_at = 40;  ///< after so many steps
};

}  // namespace parameter_worker
