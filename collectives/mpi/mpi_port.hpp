// Messages of a group as MPI's point-to-point messages.
#pragma once

#include "collectives/mpi/mpi_channel.hpp"
#include "collectives/pairwise/message_port.hpp"

namespace hymn {

std::shared_ptr<MessagePort> make_mpi_port(std::shared_ptr<MpiChannel> channel);

}  // namespace hymn
