// Tells of waits that last, where HYMN_WAIT_REPORT or HYMN_TIMEOUT asks for that.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/config.hpp"
#include "preload/watch.hpp"

namespace hymn::preload {

/// A thread that looks now and then what this rank waits in.
class Overseer {
 public:
  /// Null: nobody has asked for anything.
  static std::unique_ptr<Overseer> make(const Config& config, Watch& watch);
  Overseer(const Config& config, Watch& watch);
  Overseer(const Overseer&) = delete;
  Overseer& operator=(const Overseer&) = delete;
  ~Overseer();

 private:
  void run();
  void look();
  /// The limit has passed: a dump, and the end of the process where that is asked for.
  void give_up(const OutsideRecord::Wait& wait);

  const Config config_;
  Watch& watch_;
  const Duration report_after_;
  std::optional<std::uint64_t> told_{};  ///< the wait that was told of
  std::optional<std::uint64_t> given_up_{};
  std::mutex mutex_{};
  std::condition_variable changed_{};
  bool ends_ = false;
  std::thread thread_{};
};

}  // namespace hymn::preload
