// Values of any type and size.
#include "hymn/objects.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/support/blocks.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

/// What torch.distributed's tests send: {"rank": 3}.
using Dict = std::map<std::string, int>;

struct Particle {
  std::string name;
  std::vector<double> place;
  std::optional<int> charge;
  static auto object_fields(auto& self) { return std::tie(self.name, self.place, self.charge); }
  friend bool operator==(const Particle&, const Particle&) = default;
};

Particle particle_of(int rank) {
  Particle particle{.name = std::string(as_size(rank * 7), 'p'),
                    .place = std::vector<double>(as_size(rank % 3), rank + 0.5),
                    .charge = {}};
  if (rank % 2 == 1) particle.charge = rank;
  return particle;
}

/// None on rank 0, some on the next, and more than any first message holds on the last.
std::string text_of(int rank, int ranks) {
  const std::size_t length = rank == ranks - 1 ? 300'001 : as_size(rank * 11);
  return std::string(length, static_cast<char>('a' + rank));
}

/// What only some ranks can pack, or read.
struct Picky {
  bool packs = true;
  bool reads = true;
};

}  // namespace
}  // namespace hymn::test

template <>
struct hymn::ObjectFormat<hymn::test::Picky> {
  static void write(ObjectWriter& out, const test::Picky& value) {
    if (!value.packs) throw std::domain_error("not today");
    out.put(value.reads);
    if (!value.reads) out.put_count(1'000'000'000'000);
  }
  static void read(ObjectReader& in, test::Picky& value) {
    in.get(value.reads);
    if (!value.reads) in.get_count();
  }
};

namespace hymn::test {
namespace {

int last_of(const World& world) { return world.size() - 1; }

/// Whatever went wrong, nobody is out of step.
void expect_goes_on(ProcessGroup& group) {
  EXPECT_FALSE(group.is_aborted());
  const int rank = group.is_member() ? group.rank() : 0;
  const auto ranks = all_gather_object(group, rank);
  EXPECT_EQ(ranks.size(), as_size(group.size()));
}

RANK_TEST(Objects, AllGatherOfAnySize) {
  ProcessGroup& group = world.group();
  const std::uint64_t before = group.collective_sequence();
  const auto texts = all_gather_object(group, text_of(world.rank(), world.size()));
  ASSERT_EQ(texts.size(), ranks_as_size(world));
  for (int rank = 0; rank < world.size(); ++rank)
    EXPECT_EQ(texts[as_size(rank)], text_of(rank, world.size()));
  const auto particles = all_gather_object(group, particle_of(world.rank()));
  for (int rank = 0; rank < world.size(); ++rank)
    EXPECT_EQ(particles[as_size(rank)], particle_of(rank));
  EXPECT_EQ(group.collective_sequence(), before + 4);
}

RANK_TEST(Objects, BroadcastFromAnyRoot) {
  using Table = std::unordered_map<std::string, std::vector<std::set<int>>>;
  for (int root = 0; root < world.size(); ++root) {
    const Table sent{{"a", {{1, 2}, {}}}, {"", {}}, {std::string(10'000, 'b'), {{root}}}};
    Table table;
    if (world.rank() == root) table = sent;
    broadcast_object(world.group(), table, root);
    EXPECT_EQ(table, sent);
    // Of nothing at all.
    std::string none = world.rank() == root ? "" : "left over";
    broadcast_object(world.group(), none, root);
    EXPECT_EQ(none, "");
  }
}

RANK_TEST(Objects, GatherAndScatter) {
  for (const int root : {0, last_of(world)}) {
    const auto gathered = gather_object(world.group(), particle_of(world.rank()), root);
    EXPECT_EQ(gathered.size(), world.rank() == root ? ranks_as_size(world) : 0);
    for (std::size_t i = 0; i < gathered.size(); ++i)
      EXPECT_EQ(gathered[i], particle_of(static_cast<int>(i)));
    std::vector<std::string> texts;
    if (world.rank() == root)
      for (int rank = 0; rank < world.size(); ++rank) texts.push_back(text_of(rank, world.size()));
    std::string text = "left over";
    scatter_object(world.group(), texts, text, root);
    EXPECT_EQ(text, text_of(world.rank(), world.size()));
  }
}

RANK_TEST(Objects, MessagesOfAnySize) {
  NEEDS_RANKS(2);
  const int last = last_of(world);
  // Around what the first message holds.
  for (const std::size_t size : {0, 1, 4000, 4047, 4048, 4049, 4050, 9000, 1'000'000}) {
    const std::string sent(size, 's');
    if (world.rank() == 0) send_object(world.group(), sent, last, 5);
    if (world.rank() != last) continue;
    std::string text = "left over";
    const int source = size % 2 == 0 ? 0 : any_source;
    const RecvStatus status = recv_object(world.group(), text, source, 5);
    EXPECT_EQ(text, sent);
    EXPECT_EQ(status.source, 0);
    EXPECT_EQ(status.tag, 5);
    EXPECT_EQ(status.count, pack_object(sent).size());
  }
}

RANK_TEST(Objects, MessagesFromAll) {
  if (world.rank() != 0) return send_object(world.group(), text_of(world.rank(), world.size()), 0);
  std::set<int> sources;
  for (int i = 1; i < world.size(); ++i) {
    std::string text;
    const int source = recv_object(world.group(), text, any_source).source;
    EXPECT_EQ(text, text_of(source, world.size()));
    sources.insert(source);
  }
  EXPECT_EQ(sources.size(), ranks_as_size(world) - 1);
}

RANK_TEST(Objects, OutsideOfTheGroupNothingComes) {
  ProcessGroup group = world.new_group({0});
  Dict value{{"mine", world.rank()}};
  broadcast_object(group, value, 0);
  EXPECT_EQ(value, (Dict{{"mine", world.rank()}}));
  EXPECT_EQ(all_gather_object(group, value).size(), group.is_member() ? 1u : 0u);
  EXPECT_EQ(gather_object(group, value, 0).size(), group.is_member() ? 1u : 0u);
  const std::vector<Dict> values(1, value);
  scatter_object(group, values, value, 0);
  EXPECT_EQ(value, (Dict{{"mine", world.rank()}}));
  if (group.is_member()) return;
  send_object(group, value, 0);
  EXPECT_EQ(recv_object(group, value, 0).source, -1);
}

// --- What goes wrong: everybody hears of it, and the group goes on

/// `call` throws on `rank`, and all others hear that it has.
void expect_unpacked(World& world, int rank, const std::function<void()>& call) {
  if (world.rank() == rank)
    EXPECT_THROW(call(), std::domain_error);
  else
    expect_error(ErrorKind::peer, call,
                 {"rank " + std::to_string(rank) + " could not pack", "default_pg", "_object"});
  expect_goes_on(world.group());
}

RANK_TEST(Objects, WhoCannotPackIsNamedOnAllOthers) {
  ProcessGroup& group = world.group();
  const int bad = last_of(world);
  Picky value{.packs = world.rank() != bad};
  expect_unpacked(world, bad, [&] { all_gather_object(group, value); });
  expect_unpacked(world, bad, [&] { gather_object(group, value, 0); });
  expect_unpacked(world, bad, [&] { broadcast_object(group, value, bad); });
  std::vector<Picky> values(ranks_as_size(world));
  values.back().packs = false;
  expect_unpacked(world, bad, [&] { scatter_object(group, values, value, bad); });
  if (world.size() == 1) return;
  if (world.rank() == bad)
    EXPECT_THROW(send_object(group, value, 0), std::domain_error);
  else if (world.rank() == 0)
    expect_error(ErrorKind::peer, [&] { recv_object(group, value, bad); }, {"could not pack"});
  expect_goes_on(group);
}

RANK_TEST(Objects, WhatIsTooLargeIsRefusedOnAll) {
  ProcessGroup& group = world.group();
  // On one rank alone the limit is that small: that of all_gather and gather holds for all.
  const ObjectOptions few{.max_bytes = world.rank() == 0 ? std::size_t{500} : 1'000'000};
  const std::string text(400, 't');
  const std::string longer(500, 't');
  const auto refused = [&](const std::function<void()>& call) {
    expect_error(ErrorKind::usage, call, {"limit of 500", "max_bytes", "default_pg"});
    expect_goes_on(group);
  };
  refused([&] { all_gather_object(group, longer, few); });
  refused([&] { gather_object(group, longer, 0, few); });
  if (world.size() == 1)
    EXPECT_EQ(all_gather_object(group, text, few).size(), 1u);
  else  // two of them are too much
    refused([&] { all_gather_object(group, text, few); });
  std::string value = longer;
  refused([&] { broadcast_object(group, value, 0, few); });
  const std::vector<std::string> values(ranks_as_size(world), longer);
  refused([&] { scatter_object(group, values, value, 0, few); });
  if (world.size() == 1) return;
  if (world.rank() == 0)
    expect_error(ErrorKind::usage, [&] { send_object(group, longer, 1, 0, few); });
  if (world.rank() == 1)
    expect_error(ErrorKind::usage, [&] { recv_object(group, value, 0); }, {"limit of 500"});
  expect_goes_on(group);
  // Short enough for the first message: nothing is left of it.
  if (world.rank() == 1) send_object(group, longer, 0, 0, few);
  if (world.rank() == 0)
    expect_error(ErrorKind::usage, [&] { recv_object(group, value, 1, 0, few); });
  expect_goes_on(group);
}

RANK_TEST(Objects, WhoRefusesWhatOthersCountOnGivesTheGroupUp) {
  NEEDS_RANKS(2);
  const ObjectOptions few{.max_bytes = world.rank() == 1 ? std::size_t{10} : 1'000'000};
  ProcessGroup group = fresh_group(world);
  std::string text(5000, 't');
  const auto broadcast = [&] {
    broadcast_object(group, text, 0, few);
    group.barrier();
  };
  if (world.rank() == 1)
    expect_error(ErrorKind::usage, broadcast, {"limit of 10"});
  else
    expect_error(ErrorKind::aborted, broadcast, {"limit of 10"});
  EXPECT_TRUE(group.is_aborted());
  world.group().barrier();
}

RANK_TEST(Objects, AnotherTypeIsRefusedByWhoGetsIt) {
  ProcessGroup& group = world.group();
  std::string text = "text";
  std::vector<int> numbers{1, 2};
  const auto broadcast = [&] {
    if (world.rank() == 0)
      broadcast_object(group, text, 0);
    else
      broadcast_object(group, numbers, 0);
  };
  if (world.rank() == 0)
    broadcast();
  else
    expect_error(
        ErrorKind::usage, broadcast,
        {"expected a value of type std::vector<int", "broadcast_object, the value of rank 0"});
  EXPECT_EQ(numbers, (std::vector<int>{1, 2})) << "is as it was";
  expect_goes_on(group);
}

RANK_TEST(Objects, DamagedValuesAreRefusedByWhoGetsThem) {
  ProcessGroup& group = world.group();
  const int bad = last_of(world);
  Picky value{.reads = world.rank() != bad};
  expect_error(ErrorKind::peer, [&] { all_gather_object(group, value); },
               {"damaged", "0 bytes are left of it for 1000000000000 elements",
                "all_gather_object, the value of rank " + std::to_string(bad)});
  expect_goes_on(group);
}

RANK_TEST(Objects, WhatIsNoObjectIsRefused) {
  NEEDS_RANKS(2);
  ProcessGroup& group = world.group();
  for (const std::size_t size : {0, 3, 24, 100, 4096}) {
    std::vector<std::uint8_t> bytes(size, 7);
    if (world.rank() == 1) group.send(bytes, 0, 2);
    std::string text = "kept";
    if (world.rank() == 0)
      expect_error(ErrorKind::peer, [&] { recv_object(group, text, 1, 2); },
                   {"what rank 1 has sent does not belong to this call", "recv_object"});
    EXPECT_EQ(text, "kept");
  }
  expect_goes_on(group);
}

/// As a message begins: what is told of the value, and the value itself.
std::vector<std::byte> first_message(const std::string& text) {
  const std::vector<std::byte> value = pack_object(text);
  ObjectWriter out;
  out.put(std::uint32_t{0x656a626f}, std::uint32_t{0}, std::uint64_t{value.size()},
          std::uint64_t{1000});
  out.put_bytes(value);
  return out.take();
}

RANK_TEST(Objects, DamagedMessagesAreRefused) {
  NEEDS_RANKS(2);
  ProcessGroup& group = world.group();
  if (world.rank() > 1) return;
  const std::vector<std::byte> right = first_message("text");
  std::string text;
  if (world.rank() == 1) {
    group.send(right, 0);
    std::vector<std::byte> nothing(right.begin(), right.begin() + 24);  // an envelope that says so
    std::fill_n(nothing.begin() + 8, 8, std::byte{});
    group.send(nothing, 0);
    for (std::size_t i = 0; i < right.size(); ++i) {
      std::vector<std::byte> wrong = right;
      wrong[i] ^= std::byte{0x81};
      group.send(wrong, 0);
      wrong.resize(i);
      group.send(wrong, 0);
    }
    return;
  }
  recv_object(group, text, 1);
  EXPECT_EQ(text, "text");
  expect_error(ErrorKind::peer, [&] { recv_object(group, text, 1); }, {"rank 1"});
  std::size_t refused = 0;
  for (std::size_t i = 0; i < 2 * right.size(); ++i) try {
      recv_object(group, text, 1);
    } catch (const PeerError&) {
      ++refused;
    } catch (const UsageError&) {
      ++refused;
    }
  EXPECT_EQ(refused, 2 * right.size() - 4 - 8) << "but for the letters, and the sender's limit";
}

RANK_TEST(Objects, WhoHasRunOutOfInputGivesNoValue) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world);
  std::string text(world.rank() == 0 ? 10'000 : 0, 't');
  Join::shadow_all({group}, [&] {
    if (world.rank() != 0) return;
    broadcast_object(group, text, 0);
    expect_error(ErrorKind::peer, [&] { all_gather_object(group, text); },
                 {"what rank 1 has sent does not belong to this call"});
    broadcast_object(group, text, 0);
  });
  EXPECT_FALSE(group.is_aborted());
}

RANK_TEST(Objects, WrongCallsAreRefused) {
  ProcessGroup& group = world.group();
  std::string text = "text";
  const int nobody = world.size();
  expect_refused(group, ErrorKind::usage, "broadcast",
                 [&] { broadcast_object(group, text, nobody); });
  expect_refused(group, ErrorKind::usage, "gather_object",
                 [&] { gather_object(group, text, nobody); });
  expect_refused(group, ErrorKind::usage, "broadcast",
                 [&] { scatter_object(group, {}, text, nobody); });
  expect_refused(group, ErrorKind::usage, "send", [&] { send_object(group, text, nobody); });
  expect_refused(group, ErrorKind::usage, "recv", [&] { recv_object(group, text, world.rank()); });
  const std::vector<std::string> values(ranks_as_size(world) + 1);
  const auto scatter = [&] { scatter_object(group, values, text, 0); };
  if (world.rank() == 0)
    expect_error(ErrorKind::usage, scatter, {"values for", "one for each rank"});
  else
    expect_error(ErrorKind::peer, scatter, {"rank 0 could not pack"});
  expect_goes_on(group);
}

// --- The tests of torch.distributed (docs/seeds.md)

/// Ranks 0 and 1, or 2 and 3; the first of each pair takes, its other rank gives.
struct Pair {
  explicit Pair(World& world)
      : takes(world.rank() % 2 == 0),
        first(world.rank() / 2 * 2),
        group(world.new_group({first, first + 1}, {.local_sync = true})) {}
  bool takes;
  int first;
  ProcessGroup group;
};

RANK_TEST(Objects, test_gather_object_subgroup) {
  NEEDS_RANKS(4);
  if (world.rank() >= 4) return;
  const Pair pair(world);
  const auto gathered = gather_object(pair.group, Dict{{"rank", world.rank()}}, pair.first);
  std::vector<Dict> wanted;
  if (pair.takes) wanted = {{{"rank", pair.first}}, {{"rank", pair.first + 1}}};
  EXPECT_EQ(gathered, wanted);
}

RANK_TEST(Objects, test_send_recv_object_list_subgroup) {
  NEEDS_RANKS(4);
  if (world.rank() >= 4) return;
  const Pair pair(world);
  if (!pair.takes) return send_object(pair.group, Dict{{"rank", world.rank()}}, pair.first);
  Dict value;
  recv_object(pair.group, value, pair.first + 1);
  EXPECT_EQ(value, (Dict{{"rank", pair.first + 1}}));
}

RANK_TEST(Objects, test_broadcast_object_list_subgroup) {
  NEEDS_RANKS(4);
  if (world.rank() >= 4) return;
  const Pair pair(world);
  Dict value;
  if (!pair.takes) value = {{"rank", world.rank()}};
  broadcast_object(pair.group, value, pair.first + 1);
  EXPECT_EQ(value, (Dict{{"rank", pair.first + 1}}));
}

RANK_TEST(Objects, test_scatter_object_list_subgroup) {
  NEEDS_RANKS(4);
  if (world.rank() >= 4) return;
  const Pair pair(world);
  std::vector<Dict> values;
  if (!pair.takes) values = {{{"rank", pair.first}}, {{"rank", pair.first + 1}}};
  Dict value;
  scatter_object(pair.group, values, value, pair.first + 1);
  EXPECT_EQ(value, (Dict{{"rank", world.rank()}}));
}

RANK_TEST(Objects, test_broadcast_object_list) {
  std::vector<std::optional<int>> list(ranks_as_size(world));
  if (world.rank() == 0) list.assign(list.size(), 99);
  broadcast_object(world.group(), list, 0);
  EXPECT_EQ(list, std::vector<std::optional<int>>(ranks_as_size(world), 99));
}

RANK_TEST(Objects, test_on_completion_hook_all_gather_object) {
  world.enable_timing();
  ProcessGroup group = fresh_group(world);
  std::vector<CompletionInfo> told;
  group.on_completion([&](const CompletionInfo& info) { told.push_back(info); });
  const Dict mine{{"rank", world.rank()}, {"world_size", world.size()}};
  const std::vector<Dict> all = all_gather_object(group, mine);
  ASSERT_EQ(all.size(), ranks_as_size(world));
  for (int rank = 0; rank < world.size(); ++rank)
    EXPECT_EQ(all[as_size(rank)], (Dict{{"rank", rank}, {"world_size", world.size()}}));
  group.destroy();
  ASSERT_EQ(told.size(), 2u);
  for (const CompletionInfo& info : told) {
    EXPECT_EQ(info.type, OpType::all_gather);
    EXPECT_TRUE(info.ok()) << info.error;
    EXPECT_GT(info.active.value_or(Duration::zero()), Duration::zero());
  }
  EXPECT_EQ(told.back().sequence, 2u);
}

}  // namespace
}  // namespace hymn::test
