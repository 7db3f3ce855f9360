// Those who make something together, which is in vain without any one of them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/patience.hpp"

namespace hymn {

/// The ranks of a company, and what can be known of them.
struct Company {
  std::vector<int> ranks{};
  /// As Patience::is_hopeless.
  std::function<bool(int rank)> is_hopeless{};
  /// It has ended its world in good order, and says no more than what is on its way.
  std::function<bool(int rank)> has_left = [](int) { return false; };
  /// Why nothing comes from a rank: "rank 1 (vm, pid 7) is dead: …", "… is stopped"; empty: not
  /// known.
  std::function<std::string(int rank)> tell_of{};
};

/// To be called again and again by who waits for one of them (Patience::watch): throws a
/// PeerError that tells which were the first that are hopeless, or have left, when a word of who is
/// waited for, which may have been on its way, has had time to come.
class CompanyWatch {
 public:
  CompanyWatch(Company company, std::string purpose, ErrorContext context)
      : company_(std::move(company)), purpose_(std::move(purpose)), context_(std::move(context)) {}

  void operator()() { look(std::chrono::steady_clock::now()); }
  void look(TimePoint now);

 private:
  /// The first that were seen to be gone in one way, and since when.
  struct Absence {
    std::vector<int> ranks;
    TimePoint since{};
    std::size_t next = 0;  ///< of the company: to be looked at
  };
  /// Whether one of the next few is gone.
  bool meets_gone(Absence& absence, const std::function<bool(int)>& is_gone) const;
  /// Looks which of the company are, and whether they have been for so long.
  bool has_lasted(Absence& absence, const std::function<bool(int)>& is_gone, Duration grace,
                  TimePoint now) const;
  [[noreturn]] void tell(const std::vector<int>& gone) const;

  Company company_;
  std::string purpose_;
  ErrorContext context_;
  std::optional<TimePoint> last_look_;
  Absence failed_;
  Absence left_;
};

/// The same error, which names those of whom it is known why nothing comes from them: who has not
/// come may itself wait for one of these. Not so those of `idle`, who wait for nobody: those that
/// were missing stay so.
TimeoutError with_known(const TimeoutError& error, const Company& company,
                        std::span<const int> idle = {});

}  // namespace hymn
