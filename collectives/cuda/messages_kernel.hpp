// Sends and receives between this rank and its peers: those of one line one after the other, lines
// at the same time.
#pragma once

#include "collectives/cuda/peer_link.hpp"

namespace hymn::cuda {

HYMN_KERNEL_BODY void messages(const KernelThread& at, const PeerTeam& team,
                               const MessagesCall& call) {
  const PeerWait wait(team, call.limit);
  if (at.any(wait.has_failed())) return;
  const MessagesCall::Line& line = call.lines[at.block / message_blocks];
  PeerLink link(at, team, wait, line);
  for (unsigned i = line.first; i < line.end; ++i)
    if (!(line.is_send != 0 ? link.send(call.messages[i]) : link.receive(call.messages[i]))) return;
  link.finish();
}

}  // namespace hymn::cuda
