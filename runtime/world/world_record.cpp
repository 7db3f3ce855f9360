// What a world tells of its last calls.
#include "recorder/flight_dump.hpp"
#include "runtime/world/world_state.hpp"

namespace hymn {
std::string World::flight_record(const RecordOptions& options) const {
  DumpRequest request = need(state_).dump_request();
  request.collectives = options.collectives;
  request.only_active = options.only_active;
  request.symbols = options.symbols;
  return dump_json(need(state_).recorder().view(), request);
}

void World::dump(const std::string& reason) { need(state_).dump(reason); }

void World::enable_timing() { need(state_).ring().set_timing(true); }

}  // namespace hymn
