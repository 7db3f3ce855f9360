// The store of a world: what its ranks tell each other under keys.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/meeting.hpp"
#include "hymn/store.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn::detail {

class WorldStore {
 public:
  explicit WorldStore(WorldContext& world) : world_(world) {}

  /// As World::store(). `shared`: what ranks that are threads have in common, null elsewhere.
  std::shared_ptr<Store> get(Exchange& exchange, std::shared_ptr<Store> shared, bool one_host);
  void end();

 private:
  std::shared_ptr<Store> make(Exchange& exchange, std::shared_ptr<Store> shared, bool one_host);
  std::shared_ptr<Store> serve(Packer& told, bool one_host) const;
  std::shared_ptr<Store> join(const Bytes& told) const;

  WorldContext& world_;
  std::mutex mutex_;
  std::shared_ptr<Store> store_;  ///< null until it is asked for
};

}  // namespace hymn::detail
