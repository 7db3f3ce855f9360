// Where ranks are: what hymn says of it is what the launcher was told, and what MPI sees. Run by
// real launchers; LAUNCHED_HOSTS is the host of each rank, in order of ranks: "node0 node0 node1".
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

std::vector<std::string> launched_hosts() {
  const char* text = std::getenv("LAUNCHED_HOSTS");
  std::istringstream words(text == nullptr ? "" : text);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string name_of_this_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// The hosts once each, in order of their lowest rank.
std::vector<std::string> each_once(const std::vector<std::string>& hosts) {
  std::vector<std::string> once;
  for (const std::string& host : hosts)
    if (std::find(once.begin(), once.end(), host) == once.end()) once.push_back(host);
  return once;
}

std::vector<int> ranks_on(const std::vector<std::string>& hosts, const std::string& host) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    if (hosts[rank] == host) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

RANK_TEST(Placement, IsWhatTheLauncherWasTold) {
  const std::vector<std::string> hosts = launched_hosts();
  const std::string here = name_of_this_host();
  EXPECT_EQ(hosts.size(), static_cast<std::size_t>(world.size()));
  EXPECT_EQ(hosts.at(static_cast<std::size_t>(world.rank())), here);
  const std::vector<int> neighbours = ranks_on(hosts, here);
  EXPECT_EQ(world.host_count(), static_cast<int>(each_once(hosts).size()));
  EXPECT_EQ(world.local_size(), static_cast<int>(neighbours.size()));
  EXPECT_EQ(neighbours.at(static_cast<std::size_t>(world.local_rank())), world.rank());
}

RANK_TEST(Placement, IsWhatMpiSees) {
  MPI_Comm host = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  int local_rank = -1;
  int local_size = -1;
  MPI_Comm_rank(host, &local_rank);
  MPI_Comm_size(host, &local_size);
  MPI_Comm_free(&host);
  int hosts = local_rank == 0 ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &hosts, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(world.local_rank(), local_rank);
  EXPECT_EQ(world.local_size(), local_size);
  EXPECT_EQ(world.host_count(), hosts);
}

RANK_TEST(Placement, IsToldAsJson) {
  const std::vector<std::string> hosts = launched_hosts();
  const std::string here = name_of_this_host();
  const auto json = nlohmann::json::parse(world.topology_json());
  EXPECT_EQ(json["rank"], world.rank());
  EXPECT_EQ(json["ranks"], world.size());

  const std::vector<std::string> names = each_once(hosts);
  EXPECT_EQ(json["hosts"].size(), names.size());
  for (std::size_t i = 0; i < names.size() && i < json["hosts"].size(); ++i) {
    const auto& host = json["hosts"][i];
    const std::size_t ranks = ranks_on(hosts, names[i]).size();
    EXPECT_EQ(host["name"], names[i]);
    EXPECT_EQ(host["ranks"], ranks);
    EXPECT_EQ(host["crowded"], ranks > host["cores"]) << names[i];
    EXPECT_EQ(host["machine"], 0) << "the hosts are one machine, so of one kind";
  }
  EXPECT_EQ(json["machines"].size(), 1u);
  EXPECT_EQ(json["hosts"].at(json["host"].get<std::size_t>())["name"], here);

  std::vector<int> listed;
  for (const auto& place : json["places"]) {
    EXPECT_EQ(place["local_rank"], listed.size());
    EXPECT_NE(place["cpus"], "");
    listed.push_back(place["rank"]);
  }
  EXPECT_EQ(listed, ranks_on(hosts, here));
}

/// Values whose sum depends on the order of the additions.
float awkward(int rank, std::size_t i) {
  return std::ldexp(1.0F + 0.001F * static_cast<float>((rank + 1) * (i % 97)),
                    (static_cast<int>(i) * 7 + rank * 5) % 23);
}

/// All ranks get the same bits, whatever hosts lie between them.
void expect_equal_sums(World& world) {
  for (const std::size_t count : {1, 1000, 100000}) {
    std::vector<float> sum(count);
    for (std::size_t i = 0; i < count; ++i) sum[i] = awkward(world.rank(), i);
    world.group().all_reduce(sum);
    std::vector<float> first = sum;
    world.group().broadcast(first, 0);
    const auto same = [](float a, float b) {
      return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    };
    EXPECT_TRUE(std::equal(sum.begin(), sum.end(), first.begin(), same)) << count << " values";
    double expected = 0;
    for (int rank = 0; rank < world.size(); ++rank) expected += awkward(rank, count - 1);
    EXPECT_NEAR(sum[count - 1], expected, 1e-5 * expected);
  }
}

TEST(Sums, AreEqualOnAllRanks) { on_ranks(expect_equal_sums); }
TEST(Sums, AreEqualOnAllRanksByMessages) { on_ranks(expect_equal_sums, {.path = "mpi_p2p"}); }
TEST(Sums, AreEqualOnAllRanksByTheExchange) { on_ranks(expect_equal_sums, {.path = "exchange"}); }

RANK_TEST(Groups, OfEachHostAndAcrossHosts) {
  const std::vector<std::string> hosts = launched_hosts();
  std::vector<int> leaders;
  for (const std::string& host : each_once(hosts)) {
    const std::vector<int> ranks = ranks_on(hosts, host);
    leaders.push_back(ranks.front());
    ProcessGroup group = world.new_group(ranks);
    if (!group.is_member()) continue;
    int members = 1;
    group.all_reduce(view_of(members));
    EXPECT_EQ(members, world.local_size());
  }
  ProcessGroup group = world.new_group(leaders);
  if (!group.is_member()) return;
  const int me = world.rank();
  std::vector<int> members(leaders.size());
  group.all_gather(view_of(me), members);
  EXPECT_EQ(members, leaders);
}

}  // namespace
}  // namespace hymn::test
