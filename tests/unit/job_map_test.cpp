// How ranks on several hosts learn where they all are: ranks as threads that pretend to be there.
#include "runtime/world/job_map.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "hymn/hymn.hpp"
#include "p2p/threads/thread_hub.hpp"
#include "runtime/world/group_spots.hpp"
#include "runtime/world/machine_cache.hpp"
#include "runtime/world/thread_world.hpp"
#include "runtime/world/world_state.hpp"
#include "tests/support/machines.hpp"
#include "topology/read_machine.hpp"

namespace hymn::test {
namespace {

using detail::WorldState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// `count` ranks on a host of this make, free to use all of it.
void add_host(std::vector<PretendedRank>& ranks, const std::string& name, int count,
              const Box& box) {
  Machine machine = make_box(box);
  machine.name = name;
  const auto shared = std::make_shared<const Machine>(std::move(machine));
  for (int i = 0; i < count; ++i) ranks.push_back({name, shared, shared->cpus});
}

/// The maps of all ranks, once their worlds have been used a little.
std::vector<JobMap> maps_of(const std::vector<PretendedRank>& ranks) {
  std::vector<JobMap> maps(ranks.size());
  run_pretended_ranks(ranks, [&](World& world) {
    maps[static_cast<std::size_t>(world.rank())] = WorldState::of(world).job_map();
    EXPECT_EQ(world.local_rank(), WorldState::of(world).job_map().place().local_rank);
    std::int32_t sum = 1;
    world.group().all_reduce(view_of(sum));
    EXPECT_EQ(sum, world.size());
  });
  return maps;
}

/// What must be the same on all ranks, and on all ranks of a host, is.
void expect_consistent(const std::vector<JobMap>& maps) {
  for (std::size_t rank = 0; rank < maps.size(); ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const JobMap& map = maps[rank];
    EXPECT_EQ(map.world, maps[0].world);
    EXPECT_EQ(map.host_names, maps[0].host_names);
    EXPECT_EQ(map.host_names[static_cast<std::size_t>(map.host)], map.host_name);
    EXPECT_EQ(map.place().rank, static_cast<int>(rank));
    EXPECT_EQ(map.machine().name, map.host_name) << "its own host's machine";
    ASSERT_EQ(map.machines.size(), maps[0].machines.size());
    for (std::size_t kind = 0; kind < map.machines.size(); ++kind)
      EXPECT_EQ(fingerprint(*map.machines[kind]), fingerprint(*maps[0].machines[kind]));
    for (const RankPlace& place : map.places) {
      const JobMap& theirs = maps[static_cast<std::size_t>(place.rank)];
      EXPECT_EQ(theirs.host, map.host);
      EXPECT_EQ(theirs.places, map.places);
    }
    const HostSummary& host = map.world.hosts[static_cast<std::size_t>(map.host)];
    EXPECT_EQ(host.ranks, static_cast<int>(map.places.size()));
  }
}

std::vector<Arrival> arrivals_of(const std::vector<PretendedRank>& ranks) {
  std::vector<Arrival> arrivals;
  for (const PretendedRank& rank : ranks)
    arrivals.push_back(Arrival::of_this_rank(
        rank.config, PretendedSite{rank.host, rank.machine, rank.cpus, rank.visible_gpus},
        static_cast<int>(arrivals.size())));
  return arrivals;
}

/// What went wrong on each rank; `dead`, if it is a rank, never comes. Without worlds, for there
/// the first failure releases all others.
std::vector<std::string> errors_of(const std::vector<PretendedRank>& ranks, Duration limit,
                                   std::size_t dead = SIZE_MAX) {
  const auto hub = std::make_shared<ThreadHub>(static_cast<int>(ranks.size()));
  const std::vector<Arrival> arrivals = arrivals_of(ranks);
  std::vector<std::string> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (i != dead)
      threads.emplace_back([&, i] {
        ThreadExchange exchange(hub, static_cast<int>(i));
        const MachineReader read = [&] {
          return ranks[i].machine ? KnownMachine::of(ranks[i].machine)
                                  : known_machine(ranks[i].config.topology_file);
        };
        try {
          Patience patience;
          patience.deadline = Deadline::after(limit);
          patience.purpose = "the test";
          map_job(exchange, arrivals, read, patience);
        } catch (const ConfigError& error) {
          errors[i] = error.what();
        } catch (const TimeoutError& error) {
          errors[i] = std::string("too late: ") + error.what();
        } catch (const std::exception& error) {
          errors[i] = std::string("another error: ") + error.what();
        }
      });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// All ranks must throw a ConfigError with these words; none may hang or get through.
void expect_refused(const std::vector<PretendedRank>& ranks,
                    const std::vector<std::string>& words) {
  const auto errors = errors_of(ranks, std::chrono::seconds(30));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_THAT(errors[i], Not(HasSubstr("too late")));
    EXPECT_THAT(errors[i], HasSubstr("rank " + std::to_string(i)));
    for (const std::string& word : words) EXPECT_THAT(errors[i], HasSubstr(word));
  }
}

std::vector<int> ranks_by_host(const GroupLayout& layout) {
  std::vector<int> ranks;
  for (const HostSummary& host : layout.hosts) ranks.push_back(host.ranks);
  return ranks;
}

TEST(JobMap, OfUnevenHosts) {
  std::vector<PretendedRank> ranks;
  add_host(ranks, "a", 3, {.cores = 4, .gpus = 2});
  add_host(ranks, "b", 5, {.cores = 4, .gpus = 2});
  const auto maps = maps_of(ranks);
  expect_consistent(maps);
  EXPECT_THAT(ranks_by_host(maps[0].world), ElementsAre(3, 5));
  EXPECT_THAT(maps[0].host_names, ElementsAre("a", "b"));
  EXPECT_EQ(maps[0].machines.size(), 1u) << "the hosts are of one kind";
  EXPECT_FALSE(maps[0].world.hosts[0].oversubscribed);
  EXPECT_TRUE(maps[0].world.hosts[1].oversubscribed);
  EXPECT_EQ(maps[0].world.most_gpu_sharers(), 3);
  EXPECT_EQ(maps[7].place().local_rank, 4);
  EXPECT_EQ(maps[7].place().gpu, 0);
}

TEST(JobMap, OfHostsWithDifferentHardware) {
  std::vector<PretendedRank> ranks;
  add_host(ranks, "small", 1, {.cores = 1});
  add_host(ranks, "medium", 1, {.cores = 2, .gpus = 1});
  add_host(ranks, "large", 5, {.packages = 2, .cores = 4, .gpus = 4});
  add_host(ranks, "second", 1, {.cores = 2, .gpus = 1});
  const auto maps = maps_of(ranks);
  expect_consistent(maps);
  EXPECT_THAT(ranks_by_host(maps[0].world), ElementsAre(1, 1, 5, 1));
  ASSERT_EQ(maps[0].machines.size(), 3u);
  EXPECT_EQ(maps[0].world.hosts[1].machine, maps[0].world.hosts[3].machine);
  EXPECT_EQ(maps[0].machines[1]->name, "medium") << "the lowest of the kind speaks for it";
  EXPECT_EQ(maps[0].machines[2]->gpus.size(), 8u);
  EXPECT_EQ(*maps[6].machines[0], *maps[0].machines[0]) << "it travels without loss";
  EXPECT_EQ(maps[0].world.ranks_without_gpu(), 1);
}

TEST(JobMap, OfRanksThatTakeTurnsOnTheirHosts) {
  std::vector<PretendedRank> blocks;
  add_host(blocks, "a", 3, {.packages = 2, .cores = 2, .gpus = 1});
  add_host(blocks, "b", 3, {.cores = 8, .gpus = 4});
  std::vector<PretendedRank> ranks;
  for (std::size_t i = 0; i < 3; ++i) {
    ranks.push_back(blocks[i]);
    ranks.push_back(blocks[3 + i]);
  }
  ranks[0].cpus = *CpuSet::parse("2");  // the second package of "a"
  const auto maps = maps_of(ranks);
  expect_consistent(maps);
  EXPECT_EQ(maps[4].place().local_rank, 2);
  EXPECT_EQ(maps[0].place().gpu, 1) << "the one near its CPU";
  EXPECT_EQ(maps[2].place().gpu, 0);
  EXPECT_EQ(maps[0].world.hosts[0].most_sharers, 2);
  EXPECT_EQ(maps[5].place().gpu, 2);
}

TEST(JobMap, GpusAreAskedForByVariable) {
  std::vector<PretendedRank> ranks;
  add_host(ranks, "a", 3, {.cores = 4, .gpus = 4});
  ranks[0].config.gpu = "3";
  ranks[1].config.gpu = "none";
  const auto maps = maps_of(ranks);
  expect_consistent(maps);
  EXPECT_EQ(maps[2].places[0].gpu, 3);
  EXPECT_EQ(maps[2].places[1].gpu, -1);
  EXPECT_EQ(maps[2].places[2].gpu, 0);
}

/// `rank` sees no other GPUs of its host than these.
void hide_others(PretendedRank& rank, const std::vector<std::size_t>& gpus) {
  Machine seen = *rank.machine;
  seen.gpus.clear();
  seen.gpu_links.clear();
  for (const std::size_t from : gpus) {
    rank.visible_gpus += "," + std::to_string(from);
    seen.gpus.push_back(rank.machine->gpus[from]);
    seen.gpus.back().index = static_cast<int>(seen.gpus.size()) - 1;
    for (const std::size_t to : gpus) seen.gpu_links.push_back(rank.machine->link(from, to));
  }
  check_machine(seen);
  rank.machine = std::make_shared<const Machine>(std::move(seen));
}

TEST(JobMap, OfRanksThatSeeDifferentGpus) {
  std::vector<PretendedRank> ranks;
  add_host(ranks, "a", 4, {.packages = 2, .cores = 2, .gpus = 2});
  hide_others(ranks[0], {2});
  hide_others(ranks[1], {1, 0});
  hide_others(ranks[2], {});
  hide_others(ranks[3], {1, 0});
  ranks[3].config.gpu = "1";  // of the two that it sees
  const auto maps = maps_of(ranks);
  expect_consistent(maps);
  const Machine& machine = maps[3].machine();
  ASSERT_EQ(machine.gpus.size(), 3u) << "nobody sees the fourth";
  auto uuid_of = [&](std::size_t rank) {
    const int gpu = maps[0].places[rank].gpu;
    return gpu < 0 ? "" : machine.gpus[static_cast<std::size_t>(gpu)].uuid;
  };
  EXPECT_EQ(uuid_of(0), "GPU-2");
  EXPECT_EQ(uuid_of(1), "GPU-1");
  EXPECT_EQ(uuid_of(2), "");
  EXPECT_EQ(uuid_of(3), "GPU-0");
  EXPECT_EQ(machine.link(1, 2).kind, GpuLinkKind::nvswitch);
  EXPECT_EQ(machine.link(0, 1).kind, GpuLinkKind::unknown) << "nobody sees both";
  EXPECT_EQ(maps[0].world.worst_gpu_link(), GpuLinkKind::unknown);
  ranks[3].config.gpu = "2";
  expect_refused(ranks, {"HYMN_GPU is 2 on rank 3", "sees 2 GPUs"});
}

TEST(JobMap, BindingNarrowsWhatRanksMayUse) {
  std::vector<PretendedRank> ranks;
  add_host(ranks, "a", 2, {.packages = 2, .cores = 4});
  for (PretendedRank& rank : ranks) rank.config.bind = BindTo::package;
  const auto maps = maps_of(ranks);
  expect_consistent(maps);
  EXPECT_EQ(maps[0].places[0].cpus, CpuSet::range(0, 3));
  EXPECT_EQ(maps[0].places[1].package, 1);
}

TEST(JobMap, AGpuThatIsNotThereIsEverybodysError) {
  std::vector<PretendedRank> ranks;
  add_host(ranks, "a", 2, {.gpus = 1});
  add_host(ranks, "b", 2, {.gpus = 1});
  ranks[3].config.gpu = "1";
  expect_refused(ranks, {"host b", "HYMN_GPU is 1 on rank 3", "sees 1 GPUs"});
  // The others of its own host alone, too.
  expect_refused({ranks[2], ranks[3]}, {"host b", "HYMN_GPU is 1 on rank 1"});
}

TEST(JobMap, AFileThatCannotBeReadIsEverybodysError) {
  std::vector<PretendedRank> ranks;
  add_host(ranks, "a", 2, {});
  add_host(ranks, "b", 3, {});
  for (std::size_t i = 2; i < 5; ++i) {
    ranks[i].machine = nullptr;
    ranks[i].config.topology_file = "/nowhere/box.xml";
  }
  expect_refused(ranks, {"host b", "/nowhere/box.xml"});
}

TEST(JobMap, OneHostHasOneFile) {
  std::vector<PretendedRank> ranks;
  add_host(ranks, "a", 1, {});
  add_host(ranks, "b", 2, {});
  ranks[0].config.topology_file = "one.xml";  // not looked at: its machine is given
  EXPECT_EQ(maps_of(ranks).size(), 3u) << "other hosts may have another";
  ranks[2].config.topology_file = "two.xml";
  expect_refused(ranks, {"HYMN_TOPOLOGY_FILE", "'two.xml' on rank 2", "'' on rank 1"});
}

// After a ConfigError ranks end together, which they cannot when one of them is dead.
TEST(JobMap, ARankThatDoesNotComeIsATimeout) {
  std::vector<PretendedRank> ranks;
  add_host(ranks, "a", 3, {.packages = 2, .cores = 2, .gpus = 2});
  hide_others(ranks[1], {1, 0});  // so that its leader waits for what it sees
  add_host(ranks, "b", 2, {});
  const auto errors = errors_of(ranks, std::chrono::milliseconds(50), 1);
  for (const std::size_t rank : {0u, 2u, 3u, 4u}) EXPECT_THAT(errors[rank], HasSubstr("too late"));
}

TEST(JobMap, NoiseFromTheLeaderIsANetworkError) {
  std::vector<PretendedRank> ranks;
  add_host(ranks, "a", 2, {});
  const std::vector<Arrival> arrivals = arrivals_of(ranks);
  constexpr std::uint64_t tag_host = 5;  // as in job_map.cpp
  // No trouble (two texts and a time); then far too many hosts, or none of the one there is.
  for (const std::uint64_t hosts : {std::uint64_t{1} << 62, std::uint64_t{0}}) {
    const auto hub = std::make_shared<ThreadHub>(2);
    ThreadExchange leader(hub, 0);
    ThreadExchange exchange(hub, 1);
    leader.send(1, tag_host,
                Packer().text("").text("").number(0).number(hosts).number(0).number(0).packed());
    const MachineReader read = [&] { return KnownMachine::of(ranks[0].machine); };
    EXPECT_THROW(map_job(exchange, arrivals, read, {}), NetworkError) << hosts << " hosts";
  }
}

TEST(KnownMachine, IsAsOthersReadIt) {
  Machine machine = make_box({});
  machine.packages[0].model = "caf\xe9";
  const auto known = KnownMachine::of(std::make_shared<const Machine>(machine));
  EXPECT_EQ(*known->machine, machine_from_json(known->json, "another rank"));
  EXPECT_EQ(known->fingerprint, fingerprint(machine_from_json(known->json, "another rank")));
  EXPECT_NE(known->fingerprint, fingerprint(machine));
}

// --- Groups

TEST(GroupSpots, GiveTheSameLayoutToAllMembers) {
  std::vector<PretendedRank> ranks;
  add_host(ranks, "a", 3, {.cores = 1, .gpus = 2});
  add_host(ranks, "b", 1, {});
  add_host(ranks, "c", 4, {.cores = 4, .gpus = 4});
  const auto maps = maps_of(ranks);
  const std::vector<int> members = {1, 2, 5, 7};
  std::vector<Bytes> said;
  for (const int member : members) {
    Packer packer;
    pack_spot(packer, maps[static_cast<std::size_t>(member)], members);
    said.push_back(packer.packed());
  }
  const auto read = [&said](const std::vector<std::size_t>& order) {
    LayoutReader reader;
    for (const std::size_t i : order) {
      Unpacker unpacker(said[i]);
      reader.read(unpacker);
      EXPECT_TRUE(unpacker.empty());
    }
    return reader.layout();
  };
  const GroupLayout layout = read({0, 1, 2, 3});
  EXPECT_EQ(layout.size, 4);
  EXPECT_THAT(ranks_by_host(layout), ElementsAre(2, 2));
  EXPECT_TRUE(layout.hosts[0].oversubscribed);
  EXPECT_FALSE(layout.hosts[1].oversubscribed);
  EXPECT_EQ(layout.hosts[1].gpus, 2);
  EXPECT_EQ(layout.hosts[1].machine, maps[0].world.hosts[2].machine);
  EXPECT_TRUE(layout.in_rank_order);
  // As if the ranks came to the hosts in turn.
  EXPECT_FALSE(read({0, 2, 1, 3}).in_rank_order);
  // Who has not heard everybody does not plan with half a picture.
  LayoutReader half;
  for (std::size_t i = 0; i < 3; ++i) {
    Unpacker unpacker(said[i]);
    half.read(unpacker);
  }
  EXPECT_THROW(half.layout(), Error);
}

TEST(GroupSpots, GroupsWorkAcrossHosts) {
  std::vector<PretendedRank> ranks;
  add_host(ranks, "a", 1, {});
  add_host(ranks, "b", 1, {});
  add_host(ranks, "c", 5, {.cores = 8});
  run_pretended_ranks(ranks, [](World& world) {
    EXPECT_EQ(world.host_count(), 3);
    EXPECT_EQ(world.local_size(), world.rank() < 2 ? 1 : 5);
    ProcessGroup group = world.new_group({0, 3, 6});
    if (!group.is_member()) return;
    std::int32_t sum = world.rank();
    group.all_reduce(view_of(sum));
    EXPECT_EQ(sum, 9);
  });
}

TEST(TopologyJson, TellsHostsAndPlaces) {
  std::vector<PretendedRank> ranks;
  add_host(ranks, "first", 1, {});
  add_host(ranks, "second", 2, {.cores = 2, .gpus = 2});
  std::mutex mutex;
  std::vector<std::string> texts(3);
  run_pretended_ranks(ranks, [&](World& world) {
    std::lock_guard lock(mutex);
    texts[static_cast<std::size_t>(world.rank())] = world.topology_json();
  });
  EXPECT_THAT(texts[2], HasSubstr("\"rank\": 2"));
  EXPECT_THAT(texts[2], HasSubstr("\"name\": \"first\""));
  EXPECT_THAT(texts[2], HasSubstr("\"worst_gpu_link\": \"nvswitch\""));
  EXPECT_THAT(texts[2], HasSubstr("\"local_rank\": 1"));
  EXPECT_THAT(texts[0], Not(HasSubstr("\"local_rank\": 1"))) << "places of other hosts";
}

}  // namespace
}  // namespace hymn::test
