// What the preload has of a program, from its MPI_Init to its MPI_Finalize.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>

#include "base/config.hpp"
#include "hymn/world.hpp"
#include "preload/communicator.hpp"
#include "preload/counts.hpp"
#include "preload/groups.hpp"
#include "preload/guard.hpp"
#include "preload/overseer.hpp"
#include "preload/types.hpp"
#include "preload/watch.hpp"

namespace hymn::preload {

class Session {
 public:
  /// MPI has just been initialised. Whatever fails, the program goes on with MPI alone.
  static void begin() noexcept;
  /// MPI is about to be finalized.
  static void end() noexcept;

  /// That of a call which returns to `from`. Null: it is MPI's business alone.
  static Session* of_call(const void* from) noexcept {
    Session* const session = current_.load(std::memory_order_acquire);
    if (session == nullptr || Inside::is_on() || is_hymn(from)) return nullptr;
    return session;
  }

  /// Null: there is none now.
  static const Session* current() noexcept { return current_.load(std::memory_order_acquire); }

  /// The same on all ranks.
  struct Wishes {
    bool records = false;
    bool carries = false;
    bool carries_all = false;  ///< also where MPI is as quick
    bool keeps_bits = false;   ///< those of MPI
    bool reports = false;
  };
  Session(const Config& config, const Wishes& wishes, std::vector<RankProcess> processes,
          std::uint64_t job);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  /// Null: nothing is recorded.
  Watch* watch() { return watch_ ? &*watch_ : nullptr; }
  const Watch* watch() const { return watch_ ? &*watch_ : nullptr; }
  Types& types() { return types_; }
  Communicators& communicators() { return communicators_; }
  Counts& counts() { return counts_; }
  const Counts& counts() const { return counts_; }
  /// Null: hymn carries nothing.
  Groups* groups() { return groups_ ? &*groups_ : nullptr; }
  /// Whether threads of the program may call MPI at the same time.
  bool may_overlap() const { return may_overlap_; }
  bool keeps_bits() const { return wishes_.keeps_bits; }
  /// Whether times are to be counted.
  bool reports() const { return wishes_.reports; }
  /// Also where MPI is as quick.
  bool carries_all() const { return wishes_.carries_all; }
  std::chrono::steady_clock::time_point began() const { return began_; }
  std::uint64_t began_ticks() const { return began_ticks_; }

 private:
  static std::unique_ptr<Session> make(const Config& config, const Wishes& wishes);
  void make_world();

  static std::atomic<Session*> current_;

  const bool may_overlap_;
  const Wishes wishes_;
  const std::chrono::steady_clock::time_point began_;
  const std::uint64_t began_ticks_;
  const std::vector<RankProcess> processes_;
  Types types_{};
  std::optional<Watch> watch_{};
  Communicators communicators_;
  Counts counts_;
  std::optional<World> world_{};
  std::optional<Groups> groups_{};
  std::unique_ptr<Overseer> overseer_{};
};

}  // namespace hymn::preload
