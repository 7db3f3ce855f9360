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
  /// So many words are on their way to a rank that does not hear them when no further group is
  /// begun with it; those that are being made may withdraw theirs.
  static constexpr std::size_t most_unheard = 4096;

  struct Number {
    std::uint64_t uid;
    std::shared_ptr<Exchange> channel;  ///< of the group: what comes for it is kept from now on
  };
  /// A call's place among those of its name, which get numbers in this order.
  struct Place {
    LocalName name;
    std::optional<Number> number{};  ///< of a group that this rank leads, until it is taken
    std::uint64_t ticket = 0;        ///< of one that another leads
  };
  /// The last of it gives its place back. Null: no place has been claimed. It must not outlive the
  /// LocalNumbers.
  using Claim = std::shared_ptr<Place>;

  LocalNumbers(ExchangeMux& mux, int rank, int size);

  /// A number that no other group ever has. Throws ResourceError when there are no more.
  std::uint64_t draw();
  /// In the order of the program's calls, whichever threads make the groups. Where this rank leads
  /// the group the other members are told its number: throws ResourceError as draw(), and when one
  /// of them has not heard of too many; and what the exchange throws.
  Claim claim(LocalName name);
  /// The number of the claimed place, once its leader has told it, whether or not those before it
  /// have been taken: a call may wait for one that the same thread has begun after it. Never waits.
  std::optional<Number> try_take(Place& place);
  /// What was taken with it was withdrawn: it waits for the next one, before those that came later.
  void wait_again(const Place& place);
  /// Nobody waits with it any more. What this rank leads, and has not taken, is withdrawn.
  void give_back(Place& place) noexcept;
  /// This rank has given the group up: who has not taken the number yet is not to wait for it.
  void withdraw(const LocalName& name, std::uint64_t uid) noexcept;

 private:
  std::uint64_t draw_locked();
  Number announce(const LocalName& name);
  void withdraw_locked(const LocalName& name, std::uint64_t uid);
  void require_listeners(const LocalName& name);
  void tell(int rank, const LocalName& name, std::uint64_t uid, bool is_valid);
  void hear(int leader);
  void confirm(int leader);

  ExchangeMux& mux_;
  const std::shared_ptr<Exchange> world_;
  const std::uint64_t end_;
  std::mutex mutex_;  // guards what follows
  std::uint64_t next_;
  std::map<LocalName, std::deque<Number>> announced_;
  std::uint64_t last_ticket_ = 0;
  std::map<LocalName, std::deque<std::uint64_t>> waiting_;  ///< tickets
  std::map<int, std::size_t> unheard_;  ///< words to each rank that it has not said to have heard
  std::map<int, std::size_t> heard_;    ///< words of each rank
};

}  // namespace hymn::detail
