// Why a request is carried out as it is: ProcessGroup::explain().
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstdint>
#include <string>
#include <vector>

#include "hymn/types.hpp"

namespace hymn {

/// Why one candidate would or would not run a request.
struct Candidate {
  std::string path;
  std::string algorithm;
  bool can_run = false;
  std::string reason;  ///< why not
  /// How far it reproduces the bits of this request's result; `size` where no order can change
  /// them.
  Reproducibility promises = Reproducibility::ranks;
  double predicted_us = 0;  ///< how long it should take, in microseconds; 0: not known
  std::string cost_source;  ///< where that comes from: "tuned on …", "default table", …
};

/// How a request would be carried out: of the candidates that can run it the one that is predicted
/// to be the fastest, or the first where no time is known.
struct Explanation {
  std::string path;  ///< of the chosen candidate
  std::string algorithm;
  double predicted_us = 0;            ///< of the chosen candidate; 0: not known
  std::vector<Candidate> candidates;  ///< in order of preference
};

/// How many collectives an algorithm has carried.
struct AlgorithmUse {
  std::string path;
  std::string algorithm;  ///< "all_reduce_nccl", as Explanation names it
  std::uint64_t count = 0;
};

}  // namespace hymn
