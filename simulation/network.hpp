// What carries messages between the hosts of a simulation, in its time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "hymn/exchange.hpp"
#include "hymn/simulation.hpp"
#include "simulation/scheduler.hpp"

namespace hymn::sim {

/// Used by the simulated thread that runs: nothing is locked.
class Network {
 public:
  Network(Scheduler& scheduler, const SimulationOptions& options, const std::vector<Fault>& faults);

  bool is_between_hosts(int from, int to) const { return host(from) != host(to); }
  /// `plain`: of the sender; delivers at once. When it arrives; `never` where links are cut.
  TimePoint send(const std::shared_ptr<Exchange>& plain, int to, std::uint64_t tag,
                 std::span<const std::byte> bytes);
  TimePoint now() const { return scheduler_.now(); }
  /// What has come for this rank by now is delivered.
  void deliver(int to);

 private:
  struct Message {
    TimePoint arrives;
    std::shared_ptr<Exchange> plain;  ///< the sender may have ended meanwhile
    std::uint64_t tag;
    std::vector<std::byte> bytes;
  };
  using Pair = std::pair<int, int>;

  int host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  const SimulatedLink& link_between(int from, int to) const;
  TimePoint arrival(int from, int to, std::size_t bytes);
  /// When a message that would arrive then does, where links are cut.
  TimePoint past_cuts(int from, int to, TimePoint left, TimePoint arrives) const;
  Duration lateness(int from, int to, std::uint64_t message) const;

  Scheduler& scheduler_;
  SimulatedLink usual_link_;
  std::map<Pair, SimulatedLink> links_;  ///< by hosts, the lower one first
  std::vector<int> hosts_;
  std::vector<Fault> cuts_;
  std::vector<Fault> late_;
  std::map<int, TimePoint> host_is_free_;
  std::map<Pair, TimePoint> last_arrival_;
  std::map<Pair, std::uint64_t> sent_;
  std::map<int, std::map<int, std::deque<Message>>> under_way_;  ///< by receiver, by sender
};

/// The exchange of one rank.
class SimulatedExchange final : public Exchange {
 public:
  SimulatedExchange(Network& network, std::shared_ptr<Exchange> plain)
      : network_(network), plain_(std::move(plain)) {}
  int rank() const override { return plain_->rank(); }
  int size() const override { return plain_->size(); }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    send_numbered(to, tag, bytes);
  }
  // The number of a message is when it arrives.
  std::uint64_t send_numbered(int to, std::uint64_t tag, std::span<const std::byte> bytes) override;
  bool has_left(std::uint64_t number) override;
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override;
  std::string name() const override { return "simulation"; }

 private:
  Network& network_;
  std::shared_ptr<Exchange> plain_;
};

}  // namespace hymn::sim
