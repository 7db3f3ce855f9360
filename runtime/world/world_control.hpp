// The control plane of a world on one rank, from its start to the goodbye.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/group/world_context.hpp"
#include "runtime/rank/control_plane.hpp"
#include "runtime/world/world_store.hpp"

namespace hymn::detail {

class WorldControl {
 public:
  /// `plane`: null: there is none.
  WorldControl(WorldContext& world, ControlPlane* plane)
      : world_(world), plane_(plane), store_(world) {}

  /// Collective over the exchange. `calls`, but for its marks, is called by the thread of the
  /// control plane, where it has one.
  void start(Exchange& exchange, const std::vector<Arrival>& arrivals, const std::string& secret,
             control::Listener& listener, ControlPlane::Calls calls);
  /// This rank has done its part, or leaves because of an error.
  void say_goodbye();
  /// An exception has ended this rank's function, and been caught: its goodbye tells of it.
  void note_exception(std::string_view what);
  /// The world does not come to be on this rank, because of this.
  void leave_unmade(const Error& error);
  /// As World::store().
  std::shared_ptr<Store> store(Exchange& exchange, bool one_host);
  void end();

 private:
  WorldContext& world_;
  ControlPlane* plane_;
  bool has_thrown_ = false;
  WorldStore store_;
};

}  // namespace hymn::detail
