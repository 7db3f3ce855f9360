#include "tests/unit/host_peer_kernels.hpp"

#include <map>
#include <thread>
#include <vector>

#include "collectives/cuda/peer_kernels.hpp"

namespace hymn::test {
namespace {

using namespace cuda;

#define HYMN_HOST_KERNEL(name, body) {#name, body},
const std::map<std::string_view, HostPeerKernel> kernels = {HYMN_PEER_KERNELS(HYMN_HOST_KERNEL)};

/// Each block on a thread.
template <class Body, class Call>
void run_blocks(Body body, unsigned blocks, const PeerTeam& team, const Call& call) {
  const auto run_block = [&](unsigned block) {
    body({.thread = 0, .threads = 1, .block = block, .blocks = blocks}, team, call);
  };
  std::vector<std::jthread> others;
  for (unsigned block = 1; block < blocks; ++block) others.emplace_back(run_block, block);
  run_block(0);
}

}  // namespace

HostPeerKernel find_host_peer_kernel(std::string_view name) {
  const auto found = kernels.find(name);
  return found == kernels.end() ? nullptr : found->second;
}

void run_on_host(HostPeerKernel kernel, unsigned blocks, const PeerTeam& team,
                 const PeerCall& call) {
  run_blocks(kernel, blocks, team, call);
}

void run_messages_on_host(unsigned blocks, const PeerTeam& team, const MessagesCall& call) {
  run_blocks(messages, blocks, team, call);
}

}  // namespace hymn::test
