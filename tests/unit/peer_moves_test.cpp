// The kernels that move data between peers, and the barrier, with blocks that are threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/unit/peer_scene.hpp"

namespace hymn::test {
namespace {

/// Of a rank: no two ranks have the same.
Octets numbered(unsigned rank, std::size_t count) {
  Octets bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>(rank * 31 + i % 29);
  return bytes;
}

/// Inputs and outputs of all ranks, which may begin anywhere.
struct Moved {
  Moved(unsigned ranks, std::size_t in, std::size_t out, std::size_t begins) : shift(begins) {
    for (unsigned rank = 0; rank < ranks; ++rank) {
      Octets input(shift);
      const Octets data = numbered(rank, in);
      input.insert(input.end(), data.begin(), data.end());
      inputs.push_back(std::move(input));
      outputs.emplace_back(shift + out);
    }
  }
  PeerLaunch launch(const char* kernel, unsigned rank, std::size_t bytes, unsigned root = 0) {
    PeerLaunch launch{kernel, 2, {}};
    launch.call.input = inputs[rank].data() + shift;
    launch.call.output = outputs[rank].data() + shift;
    launch.call.bytes = launch.call.stride = bytes;
    launch.call.root = root;
    return launch;
  }
  Octets output(unsigned rank) const {
    return {outputs[rank].begin() + static_cast<std::ptrdiff_t>(shift), outputs[rank].end()};
  }
  Octets input(unsigned rank) const {
    return {inputs[rank].begin() + static_cast<std::ptrdiff_t>(shift), inputs[rank].end()};
  }
  /// What the rank has given is its block of what it gets.
  void give_own_block(unsigned rank, PeerLaunch& launch) {
    Octets& all = outputs[rank];
    const std::size_t begin = shift + rank * launch.call.bytes;
    std::copy_n(inputs[rank].begin() + static_cast<std::ptrdiff_t>(shift), launch.call.bytes,
                all.begin() + static_cast<std::ptrdiff_t>(begin));
    launch.call.input = all.data() + begin;
  }
  /// What the rank gets replaces its block of what it has given.
  void take_own_block(unsigned rank, PeerLaunch& launch) {
    launch.call.output = inputs[rank].data() + shift + rank * launch.call.bytes;
  }
  std::size_t shift;
  std::vector<Octets> inputs;
  std::vector<Octets> outputs;
};

class PeerMoves : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PeerMoves, testing::ValuesIn(peer_ranks));

TEST_P(PeerMoves, AllGather) {
  const unsigned ranks = GetParam();
  PeerScene scene(ranks, 4096);
  for (const std::size_t bytes : {0, 1, 16, 77, 4096})
    for (const std::size_t shift : {0, 3}) {
      Moved moved(ranks, bytes, bytes * ranks, shift);
      std::vector<std::vector<PeerLaunch>> launches(ranks);
      Octets wanted;
      for (unsigned rank = 0; rank < ranks; ++rank) {
        launches[rank].push_back(moved.launch("hymn_all_gather", rank, bytes));
        const Octets block = numbered(rank, bytes);
        wanted.insert(wanted.end(), block.begin(), block.end());
      }
      scene.run(launches);
      for (unsigned rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(moved.output(rank), wanted) << bytes << " bytes, rank " << rank;
    }
}

TEST_P(PeerMoves, AllToAll) {
  const unsigned ranks = GetParam();
  PeerScene scene(ranks, 4096);
  for (const std::size_t bytes : {0, 1, 16, 77, 512})
    for (const std::size_t shift : {0, 2}) {
      Moved moved(ranks, bytes * ranks, bytes * ranks, shift);
      std::vector<std::vector<PeerLaunch>> launches(ranks);
      for (unsigned rank = 0; rank < ranks; ++rank)
        launches[rank].push_back(moved.launch("hymn_all_to_all", rank, bytes));
      scene.run(launches);
      for (unsigned rank = 0; rank < ranks; ++rank) {
        Octets wanted;
        for (unsigned from = 0; from < ranks; ++from) {
          const Octets all = numbered(from, bytes * ranks);
          const auto begin = all.begin() + static_cast<std::ptrdiff_t>(bytes * rank);
          wanted.insert(wanted.end(), begin, begin + static_cast<std::ptrdiff_t>(bytes));
        }
        EXPECT_EQ(moved.output(rank), wanted) << bytes << " bytes, rank " << rank;
      }
    }
}

// From every root, one after the other: a root must not write what others still read.
TEST_P(PeerMoves, Broadcast) {
  const unsigned ranks = GetParam();
  PeerScene scene(ranks, 4096);
  constexpr std::size_t bytes = 1001;
  std::vector<Moved> calls;
  std::vector<std::vector<PeerLaunch>> launches(ranks);
  for (unsigned call = 0; call < 3 * ranks; ++call)
    calls.emplace_back(ranks, bytes, bytes, call % 5);
  for (unsigned call = 0; call < calls.size(); ++call)
    for (unsigned rank = 0; rank < ranks; ++rank)
      launches[rank].push_back(calls[call].launch("hymn_broadcast", rank, bytes, call / 3));
  scene.run(launches);
  for (unsigned call = 0; call < calls.size(); ++call)
    for (unsigned rank = 0; rank < ranks; ++rank)
      if (rank != call / 3) {
        EXPECT_EQ(calls[call].output(rank), numbered(call / 3, bytes)) << "rank " << rank;
      }
}

// To every root, one after the other, every second one in place; the others get nothing.
TEST_P(PeerMoves, Gather) {
  const unsigned ranks = GetParam();
  PeerScene scene(ranks, 4096);
  const std::vector<std::size_t> sizes = {0, 1, 16, 77, 4096};
  std::vector<Moved> calls;
  std::vector<std::vector<PeerLaunch>> launches(ranks);
  for (const std::size_t bytes : sizes)
    for (unsigned root = 0; root < ranks; ++root)
      calls.emplace_back(ranks, bytes, bytes * ranks, bytes % 5);
  for (std::size_t call = 0; call < calls.size(); ++call)
    for (unsigned rank = 0; rank < ranks; ++rank) {
      const auto root = static_cast<unsigned>(call % ranks);
      PeerLaunch launch = calls[call].launch("hymn_gather", rank, sizes[call / ranks], root);
      if (rank == root && call % 2 == 1) calls[call].give_own_block(rank, launch);
      launches[rank].push_back(std::move(launch));
    }
  scene.run(launches);
  for (std::size_t call = 0; call < calls.size(); ++call) {
    Octets wanted;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      const Octets block = numbered(rank, sizes[call / ranks]);
      wanted.insert(wanted.end(), block.begin(), block.end());
    }
    for (unsigned rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(calls[call].output(rank), rank == call % ranks ? wanted : Octets(wanted.size()))
          << sizes[call / ranks] << " bytes, rank " << rank;
  }
}

// From every root, one after the other, every second one in place; only the root is read.
TEST_P(PeerMoves, Scatter) {
  const unsigned ranks = GetParam();
  PeerScene scene(ranks, 4096);
  const std::vector<std::size_t> sizes = {0, 1, 16, 77, 512};
  std::vector<Moved> calls;
  std::vector<std::vector<PeerLaunch>> launches(ranks);
  for (const std::size_t bytes : sizes)
    for (unsigned root = 0; root < ranks; ++root)
      calls.emplace_back(ranks, bytes * ranks, bytes, bytes % 3);
  for (std::size_t call = 0; call < calls.size(); ++call)
    for (unsigned rank = 0; rank < ranks; ++rank) {
      const auto root = static_cast<unsigned>(call % ranks);
      PeerLaunch launch = calls[call].launch("hymn_scatter", rank, sizes[call / ranks], root);
      if (rank != root) launch.call.input = nullptr;
      if (rank == root && call % 2 == 1) calls[call].take_own_block(rank, launch);
      launches[rank].push_back(std::move(launch));
    }
  scene.run(launches);
  for (std::size_t call = 0; call < calls.size(); ++call) {
    const auto root = static_cast<unsigned>(call % ranks);
    const std::size_t bytes = sizes[call / ranks];
    const Octets all = numbered(root, bytes * ranks);
    for (unsigned rank = 0; rank < ranks; ++rank) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(bytes * rank);
      const Octets wanted(begin, begin + static_cast<std::ptrdiff_t>(bytes));
      const bool in_place = rank == root && call % 2 == 1;
      EXPECT_EQ(calls[call].output(rank), in_place ? Octets(bytes) : wanted)
          << bytes << " bytes, rank " << rank;
    }
    EXPECT_EQ(calls[call].input(root), all) << "its own block has come to where it was";
  }
}

// What each rank has written before a barrier all read after it, until the next one.
TEST_P(PeerMoves, Barrier) {
  const unsigned ranks = GetParam();
  PeerScene scene(ranks, 256);
  std::vector<unsigned> written(ranks);
  std::vector<unsigned> seen(ranks);
  {
    std::vector<std::jthread> threads;
    for (unsigned rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        for (unsigned round = 1; round <= 50; ++round) {
          written[rank] = round;
          scene.run_rank(rank, {{"hymn_barrier", 1, {}}});
          seen[rank] += std::accumulate(written.begin(), written.end(), 0u);
          scene.run_rank(rank, {{"hymn_barrier", 1, {}}});
        }
      });
  }
  for (unsigned rank = 0; rank < ranks; ++rank) EXPECT_EQ(seen[rank], ranks * 50 * 51 / 2);
}

}  // namespace
}  // namespace hymn::test
