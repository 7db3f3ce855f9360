// A job of processes that have a file in common: a world without MPI, and an agent.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hymn/rpc.hpp"
#include "hymn/store.hpp"
#include "tests/support/child.hpp"
#include "tests/support/temporary_folder.hpp"

namespace hymn::test {

/// One process of it.
struct Worker {
  World& world;
  rpc::Agent& agent;
  int rank;

  static std::string name(int rank) { return "worker" + std::to_string(rank); }
};

/// What functions that are called from afar find: the process's own.
inline Worker*& this_worker() {
  static Worker* worker = nullptr;
  return worker;
}

/// Runs `body` in that many processes; what it throws fails the test.
inline void on_processes(int size, const std::function<void(Worker&)>& body) {
  const TemporaryFolder folder;
  const std::string file = folder.path("store");
  std::vector<std::unique_ptr<Child>> children;
  for (int rank = 0; rank < size; ++rank)
    children.push_back(std::make_unique<Child>([&, rank]() -> std::string {
      ::torch::set_num_threads(1);
      const auto store = std::make_shared<FileStore>(file);
      World world =
          World::over(exchange_over(std::make_shared<PrefixStore>("world", store), rank, size));
      rpc::Agent agent = rpc::Agent::over(store, Worker::name(rank), rank, size);
      Worker worker{world, agent, rank};
      this_worker() = &worker;
      try {
        body(worker);
        agent.shutdown();
        world.destroy();
      } catch (const std::exception& error) {
        agent.abort(error.what());
        return error.what();
      }
      return "";
    }));
  for (int rank = 0; rank < size; ++rank)
    EXPECT_EQ(children[static_cast<std::size_t>(rank)]->report(), "") << "rank " << rank;
}

/// For bodies, where gtest's own do not work.
inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}
struct Tolerance {
  double relative = 1e-5;
  double absolute = 1e-8;
};
inline void require_close(const at::Tensor& a, const at::Tensor& b, const std::string& what,
                          Tolerance within = {}) {
  require(a.sizes() == b.sizes() && at::allclose(a, b, within.relative, within.absolute), what);
}

}  // namespace hymn::test
