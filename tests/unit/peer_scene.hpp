// Ranks that are threads, with staging buffers in memory of the host, and the kernels between them.
#pragma once

#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/sanitizers.hpp"
#include "tests/unit/host_peer_kernels.hpp"

namespace hymn::test {

using Octets = std::vector<unsigned char>;

constexpr std::uint64_t millisecond = 1'000'000;  // in nanoseconds, which kernels count

/// Of how many ranks the teams are. Sanitizers take long to begin and end threads, of which every
/// block is one.
inline const std::vector<unsigned> peer_ranks =
    sanitized ? std::vector<unsigned>{1, 2, 3, 8} : std::vector<unsigned>{1, 2, 3, 4, 5, 6, 7, 8};

/// A status as a kernel writes it.
inline std::uint32_t status_of(cuda::PeerFailure why, unsigned peer) {
  return static_cast<std::uint32_t>(why) | peer << 8;
}

/// One kernel of one rank.
struct PeerLaunch {
  std::string kernel;
  unsigned blocks = 1;
  cuda::PeerCall call{};
};

class PeerScene {
 public:
  PeerScene(unsigned ranks, std::size_t slot_bytes) : ranks_(ranks), slot_bytes_(slot_bytes) {
    const std::size_t bytes = cuda::staging_bytes(slot_bytes);
    for (unsigned rank = 0; rank < ranks; ++rank) {
      staging_buffers_.emplace_back(static_cast<std::byte*>(
          ::operator new(bytes, std::align_val_t(cuda::staging_alignment))));
      std::memset(staging_buffers_.back().get(), 0, bytes);
    }
    status_.resize(ranks);
  }

  unsigned ranks() const { return ranks_; }
  cuda::StagingHead& head(unsigned rank) {
    return *reinterpret_cast<cuda::StagingHead*>(staging_buffers_[rank].get());
  }
  std::uint32_t& aborted() { return aborted_; }
  std::uint32_t status(unsigned rank) const { return status_[rank]; }

  cuda::PeerTeam team(unsigned rank) {
    cuda::PeerTeam team{};
    for (unsigned peer = 0; peer < ranks_; ++peer)
      team.staging_buffers[peer] = staging_buffers_[peer].get();
    team.slot_bytes = slot_bytes_;
    team.rank = rank;
    team.size = ranks_;
    team.aborted = &aborted_;
    team.status = &status_[rank];
    return team;
  }

  /// One after the other, as on a stream.
  void run_rank(unsigned rank, const std::vector<PeerLaunch>& launches) {
    const cuda::PeerTeam mine = team(rank);
    for (const PeerLaunch& launch : launches) {
      const HostPeerKernel kernel = find_host_peer_kernel(launch.kernel);
      if (kernel == nullptr) throw std::logic_error("there is no kernel " + launch.kernel);
      run_on_host(kernel, launch.blocks, mine, launch.call);
    }
  }
  /// `launches` by rank; ranks run ahead of each other as far as the kernels let them.
  void run(const std::vector<std::vector<PeerLaunch>>& launches) {
    std::vector<std::jthread> threads;
    for (unsigned rank = 0; rank < ranks_; ++rank)
      threads.emplace_back([&, rank] { run_rank(rank, launches[rank]); });
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const {
      ::operator delete(memory, std::align_val_t(cuda::staging_alignment));
    }
  };
  const unsigned ranks_;
  const std::size_t slot_bytes_;
  std::vector<std::unique_ptr<std::byte, Free>> staging_buffers_;
  std::vector<std::uint32_t> status_;
  std::uint32_t aborted_ = 0;
};

}  // namespace hymn::test
