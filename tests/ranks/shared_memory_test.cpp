// Collectives on memory from hymn::allocate, which ranks that are processes map from each other.
#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>

#include "hymn/allocate.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using Floats = std::vector<float, Allocator<float>>;
constexpr std::size_t many = 100'003;

/// How many processes' memory from hymn::allocate this process has mapped.
std::size_t heaps_mapped() {
  std::set<std::string> names;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t name = line.find("hymn-heap-");
    if (name != std::string::npos) names.insert(line.substr(name));
  }
  return names.size();
}

float sum_of(int ranks, std::size_t i) {
  const auto n = static_cast<float>(ranks);
  return n * (n - 1) / 2 + n * static_cast<float>(i % 100);
}

void expect_sum(ProcessGroup& group, Floats& in, Floats& out) {
  for (std::size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<float>(group.rank()) + static_cast<float>(i % 100);
  group.all_reduce(in, out);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < out.size(); ++i) wrong += out[i] != sum_of(group.size(), i);
  EXPECT_EQ(wrong, 0u);
}

ProcessGroup over_shared_memory(World& world) {
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  GroupOptions options;
  options.path = "shm";
  options.algo = "all_reduce_two_shot";
  return world.new_group(all, options);
}

RANK_TEST(SharedMemory, IsMappedByAllRanks) {
  NEEDS_RANKS(2);
  if (world.host_count() > 1) return;  // the algorithm is for one host
  if (ranks_are_threads()) return;
  ProcessGroup group = over_shared_memory(world);
  Floats in(many);
  Floats out(many);
  // From the second time on everybody knows that all have such memory.
  for (int turn = 0; turn < 3; ++turn) expect_sum(group, in, out);
  EXPECT_EQ(heaps_mapped(), static_cast<std::size_t>(world.size()));
  world.group().barrier();
}

RANK_TEST(SharedMemory, NewBuffersAreFound) {
  NEEDS_RANKS(2);
  if (world.host_count() > 1) return;  // the algorithm is for one host
  ProcessGroup group = over_shared_memory(world);
  for (std::size_t turn = 0; turn < 20; ++turn) {
    Floats in(many + 1000 * turn);
    Floats out(in.size());
    expect_sum(group, in, out);
    in.clear();
    in.shrink_to_fit();
    Floats again(out.size());
    expect_sum(group, again, out);
  }
}

// A rank without such memory: all stage what they move, and then go back to doing without.
RANK_TEST(SharedMemory, OneRankHasNone) {
  NEEDS_RANKS(2);
  if (world.host_count() > 1) return;  // the algorithm is for one host
  ProcessGroup group = over_shared_memory(world);
  Floats in(many);
  Floats out(many);
  for (int turn = 0; turn < 8; ++turn) {
    expect_sum(group, in, out);
    std::vector<float> ordinary(many, 1.0f);
    if (turn % world.size() == world.rank())
      group.all_reduce(ordinary);
    else
      group.all_reduce(ordinary, out);
  }
}

// Nobody may write to this rank's buffer after its call has returned with an error.
RANK_TEST(SharedMemory, GivenUpBuffersStayAlone) {
  NEEDS_RANKS(2);
  if (world.host_count() > 1) return;  // the algorithm is for one host
  ProcessGroup group = over_shared_memory(world);
  Floats in(1'000'003);
  Floats out(in.size());
  for (int turn = 0; turn < 3; ++turn) expect_sum(group, in, out);
  world.group().barrier();  // or one that is late is still in a sum when the group is given up
  group.set_timeout(std::chrono::milliseconds(50));
  if (world.rank() == 0) await_tokens_of_all_others(world);
  EXPECT_NE(error_text([&] { group.all_reduce(in, out); }), "");
  if (world.rank() != 0) send_token(world, 0);
  std::fill(out.begin(), out.end(), -1.0f);
  world.group().barrier();
  EXPECT_EQ(std::count(out.begin(), out.end(), -1.0f), static_cast<std::ptrdiff_t>(out.size()));
}

RANK_TEST(SharedMemory, OtherCallsAreFound) {
  NEEDS_RANKS(2);
  if (world.host_count() > 1) return;  // the algorithm is for one host
  ProcessGroup group = over_shared_memory(world);
  Floats in(many);
  Floats out(many);
  for (int turn = 0; turn < 3; ++turn) expect_sum(group, in, out);
  world.group().barrier();  // or one that is late is still in a sum when the group is given up
  const std::size_t other = world.rank() == 0 ? many - 1 : many;
  const std::string text = error_text([&] {
    group.all_reduce(ConstBufferView(in).slice(0, other), BufferView(out).slice(0, other));
  });
  EXPECT_NE(text, "");
}

// Whoever finds it out when the call is started may not keep later calls waiting for their turn.
RANK_TEST(SharedMemory, OtherCallsStartedAreFound) {
  NEEDS_RANKS(2);
  if (world.host_count() > 1) return;  // the algorithm is for one host
  ProcessGroup group = over_shared_memory(world);
  std::vector<float> values(world.rank() == 0 ? many - 1 : many);
  EXPECT_NE(error_text([&] { group.all_reduce_async(values).wait(); }), "");
  expect_error(ErrorKind::aborted, [&] { group.all_reduce(values); }, {"all_reduce"});
}

}  // namespace
}  // namespace hymn::test
