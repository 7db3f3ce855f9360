// Ranks as threads: a world of N ranks inside one process, with the whole API.
#pragma once

#include "hymn/standard.hpp"  // first

#include <exception>
#include <string>
#include <vector>

#include "hymn/standard_parts.hpp"
#include "hymn/world.hpp"

namespace hymn {

/// Thrown by a rank that has nothing to test or do here; run_ranks passes it on to its caller when
/// no rank failed.
class HYMN_API RankSkipped : public std::exception {
 public:
  explicit RankSkipped(std::string reason) : reason_(std::move(reason)) {}
  ~RankSkipped() override;
  const char* what() const noexcept override { return reason_.c_str(); }

 private:
  std::string reason_;
};

/// What one rank threw.
struct RankFailure {
  int rank = -1;
  std::exception_ptr error;
  std::string text;
};

/// Thrown by run_ranks when ranks threw: the lowest rank's error first, all of them listed. Ranks
/// that were merely released because another one failed are not.
class HYMN_API RanksFailed : public Error {
 public:
  explicit RanksFailed(std::vector<RankFailure> failures);
  ~RanksFailed() override;
  const std::vector<RankFailure>& failures() const noexcept { return failures_; }
  /// Throws what the lowest failed rank threw.
  [[noreturn]] void rethrow_first() const;

 private:
  std::vector<RankFailure> failures_;
};

/// Runs `rank_main` on `ranks` threads, each with its own World, and returns when all have ended. A
/// rank that throws releases the others (their operations end with AbortedError) and makes this
/// throw RanksFailed. A World may be used from threads that its rank's thread has started.
HYMN_API void run_ranks(int ranks, const std::function<void(World&)>& rank_main,
                        const WorldOptions& options = {});

}  // namespace hymn
