#include "preload/policy.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace hymn::preload {
namespace {

constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

/// From `least` to `most` bytes, both included, hymn is quicker between so many ranks. Measured
/// beside Open MPI 4.1.4 (docs/preload.md).
struct Range {
  Call call;
  int from_ranks;
  int to_ranks;
  std::size_t least;
  std::size_t most;
};

constexpr std::size_t megabyte = std::size_t{1} << 20;
constexpr int many = std::numeric_limits<int>::max();
constexpr Range ranges[] = {
    {Call::Allreduce, 2, 2, 1, 16},
    {Call::Allreduce, 2, 2, 512, no_limit},
    {Call::Allreduce, 3, many, 1, no_limit},
    {Call::Reduce, 2, 2, 512, no_limit},
    {Call::Reduce, 3, many, 256, no_limit},
    {Call::Bcast, 2, 2, 512, no_limit},
    {Call::Bcast, 3, many, 128, no_limit},
    {Call::Barrier, 3, many, 0, 0},
    {Call::Gather, 2, 2, 512, no_limit},
    {Call::Gather, 3, many, 128, no_limit},
    {Call::Scatter, 2, 2, 512, no_limit},
    {Call::Scatter, 3, many, 128, no_limit},
    {Call::Allgather, 2, 2, 512, megabyte},
    {Call::Allgather, 3, many, 1, megabyte},
    {Call::Allgatherv, 2, 2, 1024, 2 * megabyte},
    {Call::Allgatherv, 3, many, 1, 2 * megabyte},
    {Call::Alltoall, 2, 2, 512, 16384},
    {Call::Alltoall, 3, many, 1, 65536},
    {Call::Alltoallv, 3, many, 0, 0},
    {Call::Reduce_scatter, 2, 2, 1024, no_limit},
    {Call::Reduce_scatter, 3, many, 1, no_limit},
    {Call::Reduce_scatter_block, 2, 2, 512, no_limit},
    {Call::Reduce_scatter_block, 3, many, 1, no_limit},
    {Call::Scan, 2, many, 512, no_limit},
    {Call::Exscan, 2, many, 512, no_limit},
};

/// Those that gain from shared memory inside each of several hosts. The others have not been
/// measured.
constexpr Call across_hosts[] = {Call::Allreduce, Call::Reduce, Call::Bcast, Call::Barrier};

bool gains_across_hosts(const Sight& sight) {
  return sight.hosts < static_cast<std::size_t>(sight.ranks) &&
         std::ranges::find(across_hosts, sight.call) != std::end(across_hosts);
}

}  // namespace

Reason judge(const Sight& sight) {
  if (sight.hosts > 1 && !gains_across_hosts(sight)) return Reason::not_quicker;
  const bool is_quicker = std::ranges::any_of(ranges, [&](const Range& range) {
    return range.call == sight.call && range.from_ranks <= sight.ranks &&
           sight.ranks <= range.to_ranks && range.least <= sight.bytes && sight.bytes <= range.most;
  });
  return is_quicker ? Reason::carried : Reason::not_quicker;
}

}  // namespace hymn::preload
