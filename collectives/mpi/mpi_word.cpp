#include "collectives/mpi/mpi_word.hpp"

#include "hymn/request.hpp"
#include "p2p/mpi/mpi_traffic.hpp"

namespace hymn {
namespace {

/// Of collectives that move as much on every member.
std::uint64_t common_bytes(const Request& request) {
  switch (request.type) {
    case OpType::broadcast:
      return request.outputs.flat().bytes();
    case OpType::all_reduce:
    case OpType::reduce:
      return request.inputs.flat().bytes();
    case OpType::reduce_scatter:
    case OpType::gather:
    case OpType::scatter:
    case OpType::all_gather:
    case OpType::all_to_all:
    case OpType::barrier:
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
      break;
  }
  return 0;
}

}  // namespace

std::uint64_t mpi_word_of(const Call& call) {
  const auto type = static_cast<std::uint64_t>(call.request->type);
  const auto root = static_cast<std::uint64_t>(call.peer + 1);
  return MpiTraffic::mixed(common_bytes(*call.request) ^ MpiTraffic::mixed(type << 32 | root));
}

}  // namespace hymn
