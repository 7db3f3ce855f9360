#include "rpc/meeting.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "base/config.hpp"
#include "base/kernel_namespace.hpp"
#include "base/log.hpp"
#include "control/socket_mesh.hpp"
#include "hymn/error.hpp"
#include "hymn/object_format.hpp"
#include "p2p/shm/byte_streams.hpp"

namespace hymn::rpc::detail {
namespace {

/// Counts of calls, and errors.
constexpr std::size_t least_message_bytes = std::size_t{64} << 10;

/// What a worker tells before it listens.
struct Introduction {
  std::string name{};
  std::string host{};  ///< the same where processes see each other
  int pid = 0;
  std::uint64_t max_message_bytes = 0;
  Bytes streams{};               ///< ByteStreamMeeting::address()
  std::string why_no_streams{};  ///< empty: it can have some
  static auto object_fields(auto& self) {
    return std::tie(self.name, self.host, self.pid, self.max_message_bytes, self.streams,
                    self.why_no_streams);
  }
};

/// Memory, or why there is none.
struct MemoryNews {
  Bytes ticket{};
  std::string failure{};
  static auto object_fields(auto& self) { return std::tie(self.ticket, self.failure); }
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
  int rank() const { return rank_; }
  Deadline deadline() const { return deadline_; }
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
  if (options.max_message_bytes < least_message_bytes)
    throw UsageError(fmt::format("max_message_bytes is {}: what agents tell each other needs {}",
                                 options.max_message_bytes, least_message_bytes));
}

std::vector<Descriptor> connect(Meeting& meeting, const std::vector<Introduction>& all,
                                const Config& config) {
  const bool one_host = std::all_of(all.begin(), all.end(),
                                    [&](const auto& one) { return one.host == all.front().host; });
  const auto mesh = listen_for_mesh({.rank = meeting.rank(),
                                     .size = static_cast<int>(all.size()),
                                     .one_host = one_host && config.interface.empty(),
                                     .interface = config.interface,
                                     .service = "rpc"});
  if (meeting.rank() == 0) meeting.say("token", bytes_of(new_mesh_token()));
  meeting.say("where", bytes_of(mesh->endpoint()));
  const std::string token = text_of(meeting.hear("token", 0));
  std::vector<std::string> endpoints;
  for (const Store::Value& value : meeting.hear_all("where")) endpoints.push_back(text_of(value));
  return mesh->connect(token, endpoints, meeting.deadline());
}

/// How the workers of this host come to streams in shared memory: all of them, or none.
class StreamMeeting {
 public:
  StreamMeeting(Meeting& meeting, const Config& config)
      : meeting_(meeting), log_(config.log_level, meeting.rank()) {
    if (!config.path.allows(paths::shm))
      why_not_ = fmt::format("HYMN_PATH is {}", config.path.text());
    else
      memory_ = meet_for_byte_streams();
  }

  void introduce(Introduction& own) const {
    own.why_no_streams = why_not_;
    if (memory_) own.streams = memory_->address();
  }

  /// `all`: by rank.
  void meet(const std::vector<Introduction>& all, Links& links) {
    const std::string& host = all[static_cast<std::size_t>(meeting_.rank())].host;
    links.streamers.assign(all.size(), -1);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank].host == host) take_in(static_cast<int>(rank), all[rank]);
    if (members_.size() < 2) return;
    if (why_not_.empty()) share_memory(links);
    if (!why_not_.empty()) links.streams = nullptr;
    links.why_no_streams = why_not_;
    if (!links.streams) return;
    for (std::size_t number = 0; number < members_.size(); ++number)
      links.streamers[static_cast<std::size_t>(members_[number])] = static_cast<int>(number);
  }

 private:
  void take_in(int rank, const Introduction& one) {
    members_.push_back(rank);
    addresses_.push_back(one.streams);
    note(rank, one.why_no_streams);
  }
  void note(int rank, const std::string& why) {
    if (why_not_.empty() && !why.empty()) why_not_ = fmt::format("{} (rank {})", why, rank);
  }
  /// What goes wrong here is told to all, and warned of.
  std::string attempt(const std::function<void()>& step) {
    try {
      step();
      return {};
    } catch (const Error& error) {
      log_.warning(
          fmt::format("calls between workers of this host go by sockets, not by shared "
                      "memory: {}",
                      error.what()));
      return error.problem();
    }
  }
  void share_memory(Links& links) {
    const int maker = members_.front();
    if (maker == meeting_.rank()) {
      MemoryNews news;
      news.failure = attempt([&] { news.ticket = memory_->make_memory(addresses_); });
      meeting_.say("memory", pack_object(news));
    }
    const auto news = unpack_object<MemoryNews>(meeting_.hear("memory", maker));
    note(maker, news.failure);
    if (!why_not_.empty()) return;
    const auto place = std::find(members_.begin(), members_.end(), meeting_.rank());
    const std::string failure = attempt([&] {
      links.streams = memory_->join(news.ticket, static_cast<int>(members_.size()),
                                    static_cast<int>(place - members_.begin()));
    });
    meeting_.say("joined", pack_object(failure));
    for (const int member : members_)
      note(member, unpack_object<std::string>(meeting_.hear("joined", member)));
  }

  Meeting& meeting_;
  Logger log_;
  std::unique_ptr<ByteStreamMeeting> memory_;
  std::string why_not_;
  std::vector<int> members_;
  std::vector<Bytes> addresses_;
};

}  // namespace

Acquaintance meet(const std::shared_ptr<Store>& store, const std::string& name, int rank, int size,
                  const AgentOptions& options) {
  if (!store) throw UsageError("an agent needs a store");
  require_possible(rank, size, options);
  const Deadline deadline = Deadline::after(options.init_timeout);
  const Config config = Config::from_environment();
  Meeting meeting(*store, rank, size, deadline);
  StreamMeeting streams(meeting, config);
  Introduction own{.name = name,
                   .host = own_host(),
                   .pid = static_cast<int>(::getpid()),
                   .max_message_bytes = options.max_message_bytes};
  streams.introduce(own);
  meeting.say("who", pack_object(own));
  Acquaintance known{.rank = rank};
  std::vector<Introduction> all;
  for (const Store::Value& value : meeting.hear_all("who")) {
    all.push_back(unpack_object<Introduction>(value));
    known.workers.push_back({all.back().name, static_cast<int>(known.workers.size())});
    known.links.pids.push_back(all.back().host == own.host ? all.back().pid : 0);
    known.most_bytes.push_back(all.back().max_message_bytes);
  }
  require_own_names(known.workers);
  streams.meet(all, known.links);
  known.links.sockets = connect(meeting, all, config);
  return known;
}

}  // namespace hymn::rpc::detail
