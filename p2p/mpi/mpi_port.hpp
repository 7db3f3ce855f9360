// Messages of a group as MPI's point-to-point messages.
#pragma once

#include "p2p/message_port.hpp"
#include "p2p/mpi/mpi_channel.hpp"

namespace hymn {

std::shared_ptr<MessagePort> make_mpi_port(std::shared_ptr<MpiChannel> channel);

}  // namespace hymn
