// Workers that are processes of their own, made by fork(), which may die.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hymn/rpc.hpp"
#include "tests/support/child.hpp"
#include "tests/support/temporary_folder.hpp"

namespace hymn::test {

/// Worker processes that meet in a file. Each runs its body; a complaint is what it returns.
class Workers {
 public:
  using Body = std::function<std::string(rpc::Agent&)>;

  void add(Body body) { bodies_.push_back(std::move(body)); }
  void start() {
    const std::string file = folder_.path("store");
    const int size = static_cast<int>(bodies_.size());
    for (int rank = 0; rank < size; ++rank)
      children_.push_back(std::make_unique<Child>([this, file, rank, size] {
        set_up(rank);
        const auto store = std::make_shared<FileStore>(file);
        rpc::Agent agent =
            rpc::Agent::over(store, "worker" + std::to_string(rank), rank, size, options);
        return bodies_[static_cast<std::size_t>(rank)](agent);
      }));
  }
  Child& child(int rank) { return *children_[static_cast<std::size_t>(rank)]; }
  std::string report(int rank) { return child(rank).report(); }

  rpc::AgentOptions options{.timeout = std::chrono::seconds(20),
                            .init_timeout = std::chrono::seconds(20)};
  std::function<void(int rank)> set_up = [](int) {};  ///< in the process, before its agent is made

 private:
  TemporaryFolder folder_;
  std::vector<Body> bodies_;
  std::vector<std::unique_ptr<Child>> children_;
};

inline std::string serve(rpc::Agent& agent) {
  agent.shutdown();
  return "";
}

using Clock = std::chrono::steady_clock;

/// Of a call that must fail with PeerError, naming the rank, soon.
inline std::string lost_soon(const std::function<void()>& call, int rank) {
  const auto started = Clock::now();
  try {
    call();
    return "the call was answered";
  } catch (const PeerError& error) {
    if (error.context().missing != std::vector<int>{rank}) return error.what();
    if (Clock::now() - started > std::chrono::seconds(5)) return "it took too long";
    return "";
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
}

}  // namespace hymn::test
