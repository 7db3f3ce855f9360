// hymn's part in bench/rpc/run: two processes, which meet in a file.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "bench/rpc/cases.hpp"
#include "hymn/rpc.hpp"

namespace rpc_bench {
namespace {

namespace rpc = hymn::rpc;

std::atomic<std::uint64_t> empty_calls{0};

const auto do_nothing = rpc::register_function("bench.nothing", [] { ++empty_calls; });
const auto get_seen = rpc::register_function("bench.seen", [] { return empty_calls.load(); });
const auto take_payload = rpc::register_function("bench.take", [](const rpc::Buffer& payload) {
  const auto words = payload.as<std::uint64_t>();
  return answer_to(words.front(), words[words.size() / 2], words.back());
});

class HymnCaller final : public Caller {
 public:
  explicit HymnCaller(rpc::Agent& agent) : agent_(agent) {
    std::ranges::fill(buffer_.as<std::uint64_t>(), 7);
  }
  void empty() override { agent_.rpc_sync(1, do_nothing); }
  void empty_in_flight(int calls) override {
    std::vector<hymn::Future<void>> made;
    for (int i = 0; i < calls; ++i) made.push_back(agent_.rpc_async(1, do_nothing));
    for (const auto& call : made) call.get();
  }
  std::uint64_t take() override { return agent_.rpc_sync(1, take_payload, buffer_); }
  Words payload() override { return buffer_.as<std::uint64_t>(); }

 private:
  rpc::Agent& agent_;
  rpc::Buffer buffer_{payload_bytes};
};

class HymnPeer final : public Peer {
 public:
  explicit HymnPeer(rpc::Agent& agent) : agent_(agent) {}
  std::unique_ptr<Caller> make_caller() override { return std::make_unique<HymnCaller>(agent_); }
  std::uint64_t seen() override { return agent_.rpc_sync(1, get_seen); }

 private:
  rpc::Agent& agent_;
};

int run(const std::string& file, int rank, const Options& options) {
  auto agent = rpc::Agent::over(std::make_shared<hymn::FileStore>(file, 2),
                                "worker" + std::to_string(rank), rank, 2);
  HymnPeer peer(agent);
  const int status = rank == 0 ? measure(peer, options) : 0;
  agent.shutdown(hymn::Timeout::none());
  return status;
}

}  // namespace
}  // namespace rpc_bench

int main(int argc, char** argv) {
  const rpc_bench::Options options = rpc_bench::options_of(argc, argv);
  const std::string file =
      std::filesystem::temp_directory_path() / ("hymn-bench-rpc-" + std::to_string(::getpid()));
  const pid_t child = ::fork();
  if (child == 0) return rpc_bench::run(file, 1, options);
  const int status = rpc_bench::run(file, 0, options);
  ::waitpid(child, nullptr, 0);
  std::filesystem::remove(file);
  return status;
}
