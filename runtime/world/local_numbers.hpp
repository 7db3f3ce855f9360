// The uids of groups that their members make alone.
//
// Nobody outside hears of such a group, so it cannot be counted by all. The least member draws its
// uid, from numbers that are that rank's alone, and tells the other members which group has it.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/exchange_mux.hpp"

namespace hymn::detail {

/// By what members know which of their calls make one group. Those of several calls with the same
/// name are alike: each makes a group.
struct LocalName {
  std::vector<int> ranks;  ///< ascending
  std::string tag;

  int leader() const { return ranks.front(); }
  auto operator<=>(const LocalName&) const = default;
};

/// Any thread may call anything.
class LocalNumbers {
 public:
  struct Number {
    std::uint64_t uid;
    std::shared_ptr<Exchange> channel;  ///< of the group: what comes for it is kept from now on
  };

  /// A call's place among those of its name, which numbers are given to in this order.
  struct Claim {
    std::optional<Number> number{};  ///< of a group that this rank leads
    std::uint64_t ticket = 0;        ///< else; 0: none
  };

  LocalNumbers(ExchangeMux& mux, int rank, int size);

  /// A number that no other group ever has. Throws ResourceError when there are no more.
  std::uint64_t draw();
  /// In the order of the program's calls, whichever threads make the groups.
  Claim claim(const LocalName& name);
  /// Nobody waits with it any more.
  void give_back(const LocalName& name, const Claim& claim);
  /// As draw(), for a group that this rank leads, which the other members are told.
  Number announce(const LocalName& name);
  /// This rank has given the group up: who has not taken the number yet is not to wait for it.
  void withdraw(const LocalName& name, std::uint64_t uid) noexcept;
  /// What the leader has announced for a group of this name, if it has, and the claim is the first
  /// of those that wait. Never waits.
  std::optional<Number> try_take(const LocalName& name, const Claim& claim);

 private:
  std::uint64_t draw_locked();
  void tell(const LocalName& name, std::uint64_t uid, bool is_valid);
  void hear(int leader);

  ExchangeMux& mux_;
  const std::shared_ptr<Exchange> world_;
  const std::uint64_t end_;
  std::mutex mutex_;  // guards what follows
  std::uint64_t next_;
  std::map<LocalName, std::deque<Number>> announced_;
  std::uint64_t last_ticket_ = 0;
  std::map<LocalName, std::deque<std::uint64_t>> waiting_;  ///< tickets
};

}  // namespace hymn::detail
