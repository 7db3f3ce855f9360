// Ranks that make a world over one store, perhaps not for the first time.
//
// A try has a number. In the store are how many rank 0 has begun, of each try how often each rank
// has come to it, and whether all had come: then rank 0 lets them go.
#include "tries.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "gil.hpp"

namespace hymn_torch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class Tries {
 public:
  Tries(c10d::Store& store, int rank, int size, double limit_seconds)
      : store_(store),
        rank_(rank),
        size_(size),
        limit_(limit_seconds),
        longest_pause_(std::clamp(size, 5, 200)) {}

  /// The number of the try that all have come to.
  int64_t meet() {
    if (rank_ == 0) {
      number_ = store_.add(begun, 1);
      wait_until([this] { return size_ == 1 || store_.check(all_others()); });
      store_.set(go(), "1");
    } else {
      wait_until([this] { return has_come_in_time() && store_.check({go()}); });
    }
    return number_;
  }

 private:
  static constexpr const char* begun = "hymn/tries";

  std::string key(const std::string& what) const {
    return "hymn/" + std::to_string(number_) + "/" + what;
  }
  std::string go() const { return key("go"); }
  std::string came(int rank) const { return key(std::to_string(rank)); }
  std::vector<std::string> all_others() const {
    std::vector<std::string> keys;
    for (int rank = 1; rank < size_; ++rank) keys.push_back(came(rank));
    return keys;
  }

  /// The number of the newest try; 0: there is none yet. It is only read: each addition makes the
  /// file of a FileStore longer.
  int64_t newest_try() {
    if (!store_.check({begun})) return 0;
    const std::vector<uint8_t> digits = store_.get(begun);
    return std::stoll(std::string(digits.begin(), digits.end()));
  }

  /// Comes to the newest try; false where this rank, or one before it, has been there already.
  bool has_come_in_time() {
    const int64_t newest = newest_try();
    if (newest != number_) {
      number_ = newest;
      is_first_ = number_ > 0 && store_.add(came(rank_), 1) == 1;
    }
    return is_first_;
  }

  template <class Condition>
  void wait_until(Condition&& holds) {
    const Clock::time_point began = Clock::now();
    milliseconds pause{1};
    while (!holds()) {
      const std::chrono::duration<double> waited = Clock::now() - began;
      if (limit_ > 0 && waited.count() >= limit_) fail(waited.count());
      raise_signals();
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, longest_pause_);
    }
  }

  [[noreturn]] void fail(double seconds) {
    std::string missing;
    for (int rank = 1; rank < size_; ++rank)
      if (rank != rank_ && !store_.check({came(rank)})) missing += " " + std::to_string(rank);
    // Where all others have come, rank 0 has not let them go.
    if (rank_ != 0 && (!is_first_ || missing.empty())) missing = " 0" + missing;
    throw_error(hymnTimeoutError, "hymn: timeout: making the world has not completed on rank " +
                                      std::to_string(rank_) + " after " + std::to_string(seconds) +
                                      " s; missing: rank(s)" + missing);
  }

  c10d::Store& store_;
  const int rank_;
  const int size_;
  const double limit_;
  /// The more ranks ask the store, the less often each of them does.
  const milliseconds longest_pause_;
  int64_t number_ = 0;
  bool is_first_ = false;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> store_of_try(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                             int size, double limit_seconds) {
  const int64_t number = Tries(*store, rank, size, limit_seconds).meet();
  return c10::make_intrusive<c10d::PrefixStore>("hymn/" + std::to_string(number) + "/world", store);
}

}  // namespace hymn_torch
