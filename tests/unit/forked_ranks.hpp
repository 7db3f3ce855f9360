// Ranks that are processes, with a socket between every two of them for an Exchange.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/toy_exchanges.hpp"

namespace hymn::test {

/// One socket between every two ranks: sockets[i][j] is i's end of the one to j.
inline std::vector<std::vector<int>> connect_all(int ranks) {
  std::vector<std::vector<int>> sockets(static_cast<std::size_t>(ranks),
                                        std::vector<int>(static_cast<std::size_t>(ranks), -1));
  for (std::size_t i = 0; i < static_cast<std::size_t>(ranks); ++i) {
    for (std::size_t j = i + 1; j < static_cast<std::size_t>(ranks); ++j) {
      int ends[2] = {-1, -1};
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) ADD_FAILURE() << "no socket";
      sockets[i][j] = ends[0];
      sockets[j][i] = ends[1];
    }
  }
  return sockets;
}

inline void close_others(const std::vector<std::vector<int>>& sockets, int mine) {
  for (int rank = 0; rank < static_cast<int>(sockets.size()); ++rank)
    for (const int socket : sockets[static_cast<std::size_t>(rank)])
      if (rank != mine && socket >= 0) ::close(socket);
}

/// Each rank a process of its own, that runs `run`, which gives its complaint, or ""; how each has
/// ended.
inline std::vector<int> run_forked_ranks(
    int ranks, const std::function<std::string(std::shared_ptr<Exchange>)>& run) {
  const auto sockets = connect_all(ranks);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      close_others(sockets, rank);
      const std::string complaint =
          run(std::make_shared<SocketExchange>(rank, sockets[static_cast<std::size_t>(rank)]));
      if (!complaint.empty()) std::fprintf(stderr, "rank %d: %s\n", rank, complaint.c_str());
      ::_exit(complaint.empty() ? 0 : 1);
    }
    EXPECT_GT(child, 0);
    children.push_back(child);
  }
  close_others(sockets, -1);
  std::vector<int> endings;
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    endings.push_back(status);
  }
  return endings;
}

}  // namespace hymn::test
