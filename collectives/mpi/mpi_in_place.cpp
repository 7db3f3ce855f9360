#include <cstring>

#include "collectives/mpi/mpi_collective.hpp"
#include "hymn/process_group.hpp"

namespace hymn {

void bring_into_place(const ConstBufferView& from, const BufferView& to, const MpiChannel& channel,
                      int group_rank) {
  if (from.data == to.data || from.count == 0) return;
  if (from.dtype != DataType::opaque) {
    std::memcpy(to.data, from.data, from.bytes());
    return;
  }
  // How the elements lie only MPI knows. Nobody else sends to itself with this tag.
  constexpr int tag = ProcessGroup::max_tag + 1;
  const LargeType in(mpi_type(from), from.count, channel.chunk_limit);
  const LargeType out(mpi_type(to), to.count, channel.chunk_limit);
  check_mpi(PMPI_Sendrecv(from.data, in.count(), in.type(), group_rank, tag, to.data, out.count(),
                          out.type(), group_rank, tag, channel.communicator, MPI_STATUS_IGNORE),
            "MPI_Sendrecv");
}

}  // namespace hymn
