// What a world tells of its last calls.
#include "recorder/flight_dump.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn {
std::string World::flight_record(const RecordOptions& options) const {
  DumpRequest request = need(state_).context().incidents.dump_request();
  request.collectives = options.collectives;
  request.only_active = options.only_active;
  request.symbols = options.symbols;
  return dump_json(need(state_).context().recorder.view(), request);
}

void World::dump(const std::string& reason) {
  detail::WorldContext& context = need(state_).context();
  context.life.require_here({.rank = context.rank(), .operation = "dump"});
  context.incidents.dump(reason);
}

void World::enable_timing() { need(state_).context().ring().set_timing(true); }

}  // namespace hymn
