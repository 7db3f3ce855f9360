// How all workers find out together that nothing is in flight.
//
// The lowest worker that lives asks all others how many calls they have made and served. Each tells
// it when it has come to shutdown() itself and waits for nothing. Nothing is in flight where every
// call that was made was served, twice in a row with the same numbers: between the two nobody can
// have begun anything. Then it tells all.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "hymn/error.hpp"
#include "hymn/object_format.hpp"
#include "hymn/timeout.hpp"
#include "rpc/message.hpp"

namespace hymn::rpc::detail {

/// By rank of the other end.
struct CallCounts {
  std::vector<std::uint64_t> made{};
  std::vector<std::uint64_t> served{};
  static auto object_fields(auto& self) { return std::tie(self.made, self.served); }
  friend bool operator==(const CallCounts&, const CallCounts&) = default;
};

/// Thread-safe.
class Shutdown {
 public:
  using Post = std::function<bool(int rank, Message message)>;
  /// `is_idle`: whether no call that this worker has made is unanswered.
  Shutdown(int rank, int size, Post post, std::function<bool()> is_idle);

  void note_made(int rank) { ++made_[static_cast<std::size_t>(rank)]; }
  void note_arrived() { ++serving_; }
  void note_served(int rank);
  std::size_t serving() const { return serving_.load(); }
  /// Something has ended: what is asked for may be told now.
  void look();

  /// One of the kinds shutdown_…
  void take(int from, Message& message);
  void lose(int rank);

  /// Returns when nothing is in flight on any worker. Throws TimeoutError naming who has not told.
  void run(Deadline deadline);
  /// Who waits in run() goes on.
  void stop();

 private:
  using Lock = std::unique_lock<std::mutex>;

  int leader() const;
  std::vector<int> living() const;
  CallCounts counts() const;
  bool is_quiet() const;
  std::vector<int> missing() const;
  TimeoutError too_late(const std::vector<int>& ranks) const;
  void announce(bool has_come);
  void agree(Deadline deadline);
  /// Waits until all have come to the end. Who is to be told by this worker.
  std::vector<int> led_to_the_end(Deadline deadline);
  void tell(int to, std::uint64_t round);
  bool round(Lock& lock, Deadline deadline);
  bool is_balanced() const;
  void wait(Lock& lock, Deadline deadline, const std::function<bool()>& until);

  const int rank_;
  const int size_;
  const Post post_;
  const std::function<bool()> is_idle_;
  const std::unique_ptr<std::atomic<std::uint64_t>[]> made_;
  const std::unique_ptr<std::atomic<std::uint64_t>[]> served_;
  std::atomic<std::size_t> serving_{0};
  std::atomic<bool> has_come_{false};
  std::atomic<bool> is_attentive_{false};  ///< somebody waits for what look() sees

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<bool> gone_;
  std::optional<std::pair<int, std::uint64_t>> asked_;  ///< by whom, in which round
  std::uint64_t round_ = 0;
  std::map<int, CallCounts> told_;
  std::set<int> come_;  ///< other workers, to shutdown()
  bool is_in_round_ = false;
  bool done_ = false;
  bool stopped_ = false;
};

}  // namespace hymn::rpc::detail
