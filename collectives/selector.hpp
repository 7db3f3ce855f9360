// Which algorithm carries out a request, and why not another.
#pragma once

#include <array>
#include <atomic>

#include "base/paths.hpp"
#include "collectives/algorithm.hpp"
#include "hymn/process_group.hpp"

namespace hymn {

/// The candidates of one group, in order of preference. Thread-safe.
class Selector {
 public:
  Selector(Algorithms algorithms, PathPolicy policy);

  /// The first candidate that is allowed and can run the request; remembered for requests alike.
  /// Throws UnsupportedError that tells why each candidate refused.
  Algorithm& pick(const Request& request);
  Explanation explain(const Request& request) const;

 private:
  std::uint64_t key(const Request& request) const;
  std::size_t search(const Request& request) const;
  Candidate ask(const Algorithm& algorithm, const Request& request) const;
  [[noreturn]] void refuse(const Request& request) const;

  Algorithms algorithms_;
  PathPolicy policy_;
  // Key and answer in one word each, so that an entry is never half written.
  std::array<std::atomic<std::uint64_t>, 64> cache_{};
};

}  // namespace hymn
