#include "collectives/mpi/mpi_word.hpp"

#include "hymn/request.hpp"
#include "p2p/mpi/mpi_traffic.hpp"

namespace hymn {
namespace {

/// Of collectives without blocks: these move as much on every member.
std::uint64_t common_bytes(const Request& request) {
  if (!is_collective(request.type) || has_blocks(request.type)) return 0;
  return all_have_outputs(request.type) ? request.outputs.flat().bytes()
                                        : request.inputs.flat().bytes();
}

}  // namespace

std::uint64_t mpi_word_of(const Call& call) {
  const auto type = static_cast<std::uint64_t>(call.request->type);
  const auto root = static_cast<std::uint64_t>(call.peer + 1);
  return MpiTraffic::mixed(common_bytes(*call.request) ^ MpiTraffic::mixed(type << 32 | root));
}

}  // namespace hymn
