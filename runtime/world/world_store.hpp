// The store of a world: what its ranks tell each other under keys.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/meeting.hpp"
#include "hymn/store.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn::detail {

/// Made by the first of this rank's threads that asks; whoever comes meanwhile waits for it. No
/// lock is held while anybody waits. When making it has failed, the next who asks goes on with it.
class WorldStore {
 public:
  explicit WorldStore(WorldContext& world) : world_(world) {}

  /// As World::store(). `shared`: what ranks that are threads have in common, null elsewhere.
  std::shared_ptr<Store> get(Exchange& exchange, std::shared_ptr<Store> shared, bool one_host);
  /// The world has been destroyed: who makes the store sees that, and is waited for.
  void end();

 private:
  ErrorContext context() const { return {.rank = world_.rank(), .operation = "store"}; }
  /// In vain as soon as the world is destroyed.
  Patience until_destroyed(Patience patience) const;
  /// Null: this thread is to make it. Otherwise waits until it is made.
  std::shared_ptr<Store> await();
  /// This thread's turn is over, with what it has made; null: nothing.
  void end_turn(std::shared_ptr<Store> made);
  std::shared_ptr<Store> make(Exchange& exchange, std::shared_ptr<Store> shared, bool one_host);
  Bytes meet(Exchange& exchange, bool one_host);
  Bytes serve(bool one_host);
  std::shared_ptr<Store> join() const;

  WorldContext& world_;
  std::mutex mutex_;              // guards what follows
  std::thread::id maker_;         ///< of no thread: nobody makes it now
  std::shared_ptr<Store> store_;  ///< null until it is made

  // By the maker alone.
  Bytes told_;                     ///< by rank 0 to all; empty: they have not met
  std::shared_ptr<Store> served_;  ///< by this rank, if it is rank 0
  Bytes offer_;                    ///< what rank 0 is to tell
};

}  // namespace hymn::detail
