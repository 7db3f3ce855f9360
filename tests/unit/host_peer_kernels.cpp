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

}  // namespace

HostPeerKernel find_host_peer_kernel(std::string_view name) {
  const auto found = kernels.find(name);
  return found == kernels.end() ? nullptr : found->second;
}

// Each block on a thread.
void run_on_host(HostPeerKernel kernel, unsigned blocks, const PeerTeam& team,
                 const PeerCall& call) {
  const auto run_block = [&](unsigned block) {
    kernel({.thread = 0, .threads = 1, .block = block, .blocks = blocks}, team, call);
  };
  std::vector<std::jthread> others;
  for (unsigned block = 1; block < blocks; ++block) others.emplace_back(run_block, block);
  run_block(0);
}

}  // namespace hymn::test
