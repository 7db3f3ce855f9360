#include "rpc/meeting.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <utility>

#include "base/config.hpp"
#include "base/kernel_namespace.hpp"
#include "control/socket_mesh.hpp"
#include "hymn/error.hpp"
#include "hymn/object_format.hpp"

namespace hymn::rpc::detail {
namespace {

/// What a worker tells before it listens.
struct Introduction {
  std::string name{};
  std::string host{};  ///< the same where processes see each other
  int pid = 0;
  std::uint64_t max_message_bytes = 0;
  static auto object_fields(auto& self) {
    return std::tie(self.name, self.host, self.pid, self.max_message_bytes);
  }
};

std::string own_host() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return fmt::format("{} {} {}", boot, own_namespace("pid"), own_namespace("net"));
}

class Meeting {
 public:
  Meeting(Store& store, int rank, int size, Deadline deadline)
      : store_(store), rank_(rank), size_(size), deadline_(deadline) {
    // Agents that are made one after the other do not read each other's keys.
    const std::int64_t turn = store_.add(fmt::format("rpc/turns/{}", rank_), 1);
    prefix_ = fmt::format("rpc/{}/", turn);
  }

  void say(const std::string& key, std::span<const std::byte> value) {
    store_.set(fmt::format("{}{}/{}", prefix_, key, rank_), value);
  }
  Store::Value hear(const std::string& key, int rank) {
    try {
      return store_.get(fmt::format("{}{}/{}", prefix_, key, rank), left());
    } catch (const StoreError& error) {
      if (!deadline_.expired(std::chrono::steady_clock::now())) throw;
      throw TimeoutError(fmt::format("rank {} has not made its agent in time", rank), Duration{0},
                         {.rank = rank_, .operation = "rpc::Agent()", .missing = {rank}});
    }
  }
  std::vector<Store::Value> hear_all(const std::string& key) {
    std::vector<Store::Value> values;
    for (int rank = 0; rank < size_; ++rank) values.push_back(hear(key, rank));
    return values;
  }

 private:
  Timeout left() const {
    if (deadline_.is_never()) return Timeout::none();
    return std::max<Duration>(deadline_.when() - std::chrono::steady_clock::now(), Duration{0});
  }

  Store& store_;
  int rank_;
  int size_;
  Deadline deadline_;
  std::string prefix_;
};

std::string text_of(const Store::Value& value) {
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span<const char>(text));
}

void require_own_names(const std::vector<WorkerInfo>& workers) {
  std::map<std::string, int> ranks;
  for (const WorkerInfo& each : workers) {
    if (each.name.empty()) throw UsageError(fmt::format("rank {} has no name", each.rank));
    const auto [found, is_new] = ranks.emplace(each.name, each.rank);
    if (!is_new)
      throw UsageError(
          fmt::format("ranks {} and {} are both called {}", found->second, each.rank, each.name),
          {.remedy = "give each worker a name of its own"});
  }
}

void require_possible(int rank, int size, const AgentOptions& options) {
  if (size < 1 || rank < 0 || rank >= size)
    throw UsageError(fmt::format("there is no rank {} of {}", rank, size));
  if (options.threads < 1) throw UsageError("an agent needs a thread at least");
}

}  // namespace

Acquaintance meet(const std::shared_ptr<Store>& store, const std::string& name, int rank, int size,
                  const AgentOptions& options) {
  if (!store) throw UsageError("an agent needs a store");
  require_possible(rank, size, options);
  const Deadline deadline = Deadline::after(options.init_timeout);
  Meeting meeting(*store, rank, size, deadline);
  const Introduction own{.name = name,
                         .host = own_host(),
                         .pid = static_cast<int>(::getpid()),
                         .max_message_bytes = options.max_message_bytes};
  meeting.say("who", pack_object(own));
  Acquaintance known{.rank = rank};
  bool one_host = true;
  for (const Store::Value& value : meeting.hear_all("who")) {
    const auto other = unpack_object<Introduction>(value);
    const bool is_near = other.host == own.host;
    one_host = one_host && is_near;
    known.workers.push_back({other.name, static_cast<int>(known.workers.size())});
    known.pids.push_back(is_near ? other.pid : 0);
    known.most_bytes.push_back(other.max_message_bytes);
  }
  require_own_names(known.workers);
  const std::string interface = Config::from_environment().interface;
  const auto mesh = listen_for_mesh({.rank = rank,
                                     .size = size,
                                     .one_host = one_host && interface.empty(),
                                     .interface = interface,
                                     .service = "rpc"});
  if (rank == 0) meeting.say("token", bytes_of(new_mesh_token()));
  meeting.say("where", bytes_of(mesh->endpoint()));
  const std::string token = text_of(meeting.hear("token", 0));
  std::vector<std::string> endpoints;
  for (const Store::Value& value : meeting.hear_all("where")) endpoints.push_back(text_of(value));
  known.sockets = mesh->connect(token, endpoints, deadline);
  return known;
}

}  // namespace hymn::rpc::detail
