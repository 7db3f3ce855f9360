#include "tests/fault/blow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>

namespace hymn::test {
namespace {

constexpr std::array<std::string_view, phase_count> phases = {
    "world", "groups", "calls", "messages", "join", "shadow", "shrink", "end", "finalize"};
constexpr std::array<std::string_view, death_count> names_of_deaths = {
    "kill", "segv", "abort", "exit", "leave", "stop", "never"};

/// How often each phase is drawn, of twenty times.
constexpr std::array<std::size_t, phase_count> shares = {2, 3, 6, 2, 1, 1, 2, 2, 1};

Phase draw_phase(std::mt19937_64& random) {
  std::size_t drawn = random() % 20;
  std::size_t phase = 0;
  while (drawn >= shares[phase]) drawn -= shares[phase++];
  return static_cast<Phase>(phase);
}

/// As long as the phase may take, in microseconds.
int longest_delay(Phase phase) {
  switch (phase) {
    case Phase::world:
      return 30'000;
    case Phase::end:
    case Phase::finalize:
      return 5'000;
    case Phase::groups:
    case Phase::calls:
    case Phase::messages:
    case Phase::join:
    case Phase::shadow:
    case Phase::shrink:
      break;
  }
  return 100'000;
}

Victim draw_victim(std::mt19937_64& random, const Blow& blow) {
  Victim victim;
  victim.rank = static_cast<int>(random() % static_cast<unsigned>(blow.ranks));
  // Those who stay take their time.
  victim.death = static_cast<Death>(random() % (random() % 3 == 0 ? death_count : 5));
  victim.delay_us = static_cast<int>(random() % static_cast<unsigned>(longest_delay(blow.phase)));
  // MPI_Finalize waits for them for ever, as MPI may.
  const bool is_last = blow.phase == Phase::end || blow.phase == Phase::finalize;
  if (is_last && victim.stays()) victim.death = Death::kill;
  // There is not always a moment between two calls.
  const bool in_call = blow.phase == Phase::world || blow.phase == Phase::shadow || is_last;
  if (in_call && (victim.death == Death::exit || victim.death == Death::never))
    victim.death = Death::kill;
  return victim;
}

}  // namespace

std::string_view to_string(Phase phase) { return phases[static_cast<std::size_t>(phase)]; }
std::string_view to_string(Death death) { return names_of_deaths[static_cast<std::size_t>(death)]; }

Blow Blow::draw(std::uint64_t seed) {
  static const std::vector<std::string> paths = {"", "", "", "shm,mpi", "mpi,mpi_p2p", "exchange"};
  static constexpr std::array some_ranks = {2, 3, 3, 4, 4, 5, 7};
  std::mt19937_64 random(seed);
  for (int warm = 0; warm < 10; ++warm) random();
  Blow blow{.seed = seed};
  blow.ranks = some_ranks[random() % some_ranks.size()];
  blow.phase = draw_phase(random);
  blow.path = paths[random() % paths.size()];
  blow.victims.push_back(draw_victim(random, blow));
  if (blow.ranks > 2 && random() % 3 == 0) {
    const Victim second = draw_victim(random, blow);
    if (second.rank != blow.victims.front().rank) blow.victims.push_back(second);
  }
  blow.hosts = {blow.ranks};
  return blow;
}

Blow Blow::draw_over_tcp(std::uint64_t seed) {
  Blow blow = draw(seed);
  std::mt19937_64 random(~seed);
  blow.path = "tcp";
  if (blow.phase == Phase::calls && random() % 3 != 0) blow.phase = Phase::messages;
  blow.streams = random() % 2 == 0 ? 1 : 4;
  if (random() % 8 != 0) {
    blow.cut_every_ms = 3 + static_cast<int>(random() % 30);
    const bool is_brief = blow.phase == Phase::end || blow.phase == Phase::finalize;
    for (Victim& victim : blow.victims)
      if (!is_brief) victim.delay_us *= 5;  // after some cuts
  }
  const bool has_hosts = random() % 3 == 0 && blow.phase != Phase::finalize;
  if (has_hosts) blow.hosts = {blow.ranks - 1, 1};
  return blow;
}

std::string Blow::describe() const {
  std::string text = fmt::format("seed {}: {} ranks on {} hosts, path '{}', in {}", seed, ranks,
                                 hosts.size(), path, to_string(phase));
  if (cut_every_ms != 0)
    text += fmt::format("; {} streams, a cut each {} ms", streams, cut_every_ms);
  for (const Victim& victim : victims)
    text += fmt::format("; rank {}: {} after {} us", victim.rank, to_string(victim.death),
                        victim.delay_us);
  return text;
}

const Victim* Blow::victim(int rank) const {
  for (const Victim& one : victims)
    if (one.rank == rank) return &one;
  return nullptr;
}

bool Blow::anyone_stays() const {
  return std::any_of(victims.begin(), victims.end(),
                     [](const Victim& victim) { return victim.stays(); });
}

std::vector<int> Blow::survivors() const {
  std::vector<int> ranks_left;
  for (int rank = 0; rank < ranks; ++rank)
    if (victim(rank) == nullptr) ranks_left.push_back(rank);
  return ranks_left;
}

bool Blow::is_recovered() const {
  const bool has_begun = phase == Phase::groups || phase == Phase::calls ||
                         phase == Phase::messages || phase == Phase::shrink;
  return has_begun && !anyone_stays() && !may_lose_its_paths();
}

bool Blow::may_lose_its_paths() const {
  const bool may_block_mpi = phase == Phase::groups || phase == Phase::shrink;
  return may_block_mpi && path == "mpi,mpi_p2p";
}

}  // namespace hymn::test
