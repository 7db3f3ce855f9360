// What a world tells of its last calls.
#include "runtime/flight_dump.hpp"
#include "runtime/world_state.hpp"

namespace hymn {
namespace detail {

DumpRequest WorldState::dump_request() const {
  DumpRequest request;
  request.groups = registry_.all();
  return request;
}

}  // namespace detail

std::string World::flight_record(const RecordOptions& options) const {
  DumpRequest request = state_->dump_request();
  request.collectives = options.collectives;
  request.only_active = options.only_active;
  request.symbols = options.symbols;
  return dump_json(state_->recorder().view(), request);
}

void World::enable_timing() { state_->ring().set_timing(true); }

}  // namespace hymn
