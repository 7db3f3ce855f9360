#include "simulation/network.hpp"

#include <algorithm>
#include <iterator>

namespace hymn::sim {

Network::Network(Scheduler& scheduler, const SimulationOptions& options,
                 const std::vector<Fault>& faults)
    : scheduler_(scheduler), usual_link_(options.link), hosts_(options.hosts) {
  for (const LinkBetween& one : options.links) links_[std::minmax(one.host, one.other)] = one.link;
  const auto keep = [&](std::vector<Fault>& kept, Fault::Kind kind) {
    std::ranges::copy_if(faults, std::back_inserter(kept),
                         [kind](const Fault& fault) { return fault.kind == kind; });
  };
  keep(cuts_, Fault::Kind::cut);
  keep(late_, Fault::Kind::late);
  std::ranges::sort(cuts_, {}, &Fault::at);
}

Duration Network::lateness(int from, int to, std::uint64_t message) const {
  Duration all{0};
  for (const Fault& fault : late_)
    if (fault.from == from && fault.to == to && fault.message == message)
      all += std::min(fault.by, longest_time);
  return all;
}

TimePoint Network::past_cuts(int from, int to, TimePoint left, TimePoint arrives) const {
  const auto [low, high] = std::minmax({host(from), host(to)});
  for (const Fault& cut : cuts_) {
    if (std::min(cut.from, cut.to) != low || std::max(cut.from, cut.to) != high) continue;
    if (scheduler_.faults_begin() == never) continue;
    const TimePoint begins = scheduler_.faults_begin() + cut.at;
    if (arrives < begins) continue;
    if (cut.by > longest_time) return never;
    // It is sent again when the link is there again.
    if (const TimePoint ends = begins + cut.by; left < ends)
      arrives = std::max(arrives, ends + link_between(from, to).latency);
  }
  return arrives;
}

const SimulatedLink& Network::link_between(int from, int to) const {
  const auto found = links_.find(std::minmax(host(from), host(to)));
  return found == links_.end() ? usual_link_ : found->second;
}

TimePoint Network::arrival(int from, int to, std::size_t bytes) {
  TimePoint& is_free = host_is_free_[host(from)];
  const SimulatedLink& link = link_between(from, to);
  const double seconds = static_cast<double>(bytes) / link.bytes_per_second;
  const TimePoint left = std::max(is_free, scheduler_.now());
  is_free = left + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  TimePoint arrives = is_free + link.latency;
  if (scheduler_.faults_begin() != never) arrives += lateness(from, to, sent_[{from, to}]++);
  arrives = past_cuts(from, to, left, arrives);
  TimePoint& last = last_arrival_[{from, to}];
  last = std::max(last, arrives);
  return last;
}

TimePoint Network::send(const std::shared_ptr<Exchange>& plain, int to, std::uint64_t tag,
                        std::span<const std::byte> bytes) {
  const TimePoint arrives = arrival(plain->rank(), to, bytes.size());
  if (arrives == never) return never;
  under_way_[to][plain->rank()].push_back({arrives, plain, tag, {bytes.begin(), bytes.end()}});
  scheduler_.expect_news(arrives);
  return arrives;
}

void Network::deliver(int to) {
  const auto all = under_way_.find(to);
  if (all == under_way_.end()) return;
  for (auto& [from, messages] : all->second)
    while (!messages.empty() && messages.front().arrives <= scheduler_.now()) {
      // Taken out first: to deliver it gives others a turn.
      const Message message = std::move(messages.front());
      messages.pop_front();
      message.plain->send(to, message.tag, message.bytes);
    }
}

std::uint64_t SimulatedExchange::send_numbered(int to, std::uint64_t tag,
                                               std::span<const std::byte> bytes) {
  TimePoint arrives = network_.now();
  if (network_.is_between_hosts(rank(), to))
    arrives = network_.send(plain_, to, tag, bytes);
  else
    plain_->send(to, tag, bytes);
  return static_cast<std::uint64_t>(arrives.time_since_epoch().count());
}

bool SimulatedExchange::has_left(std::uint64_t number) {
  return static_cast<std::uint64_t>(network_.now().time_since_epoch().count()) >= number;
}

std::optional<ExchangeMessage> SimulatedExchange::try_receive(int from, std::uint64_t tag) {
  network_.deliver(rank());
  return plain_->try_receive(from, tag);
}

}  // namespace hymn::sim
