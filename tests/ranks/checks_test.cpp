// Calls that differ from rank to rank, ranks that do not come, and NaNs: what the checks say.
#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <thread>

#include "hymn/coalesce.hpp"
#include "hymn/values.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/spoilt.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

bool is_last(World& world) { return world.rank() == world.size() - 1; }

/// All other ranks say to this one that they are ready; they do not wait.
void wait_for_others(World& world, int waiting) {
  std::int32_t token = 1;
  if (world.rank() != waiting) return world.group().send(view_of(token), waiting, 9);
  for (int rank = 0; rank < world.size(); ++rank)
    if (rank != waiting) world.group().recv(view_of(token), rank, 9);
}

/// The buffers of the calls below.
struct Buffers {
  std::vector<float> floats = std::vector<float>(64, 1.0f);
  std::vector<float> more = std::vector<float>(64, 1.0f);
  std::vector<std::int32_t> ints = std::vector<std::int32_t>(64, 1);
  BufferView first(std::size_t count) { return BufferView(floats).slice(0, count); }
  BufferView out(std::size_t count) { return BufferView(more).slice(0, count); }
};

using MakeRequest = Request (*)(Buffers& buffers, World& world, bool other);

/// The last rank makes another call than all others: everybody must be told of both, blocking or
/// not, and the group must not notice.
void expect_told_apart(World& world, MakeRequest make, const std::string& usual,
                       const std::string& odd) {
  NEEDS_RANKS(2);
  ProcessGroup group = fresh_group(world);
  Buffers buffers;
  const Request request = make(buffers, world, is_last(world));
  const std::string last = "rank " + std::to_string(world.size() - 1) + " calls " + odd;
  const std::string others = " call" + std::string(world.size() == 2 ? "s " : " ") + usual;
  const std::string here = "[rank " + std::to_string(world.rank()) + ",";
  const auto expect_refused_everywhere = [&](const std::function<void()>& call) {
    expect_error(
        ErrorKind::usage, call,
        {"ranks make different calls", last, others, "checks_test.cpp:", here, "same order"});
  };
  expect_refused_everywhere([&] { group.run(request); });
  expect_refused_everywhere([&] { (void)group.start(request); });
  EXPECT_EQ(group.collective_sequence(), 0u);
  expect_group_works(group);
  EXPECT_EQ(group.collective_sequence(), 1u);
}

void in_detail(const std::function<void(World&)>& body) {
  on_ranks(body, {.checks = CheckLevel::detail});
}

void expect_detail_finds(MakeRequest make, const std::string& usual, const std::string& odd) {
  in_detail([&](World& world) { expect_told_apart(world, make, usual, odd); });
}

TEST(ChecksDetail, AnotherOperation) {
  expect_detail_finds(
      [](Buffers& buffers, World&, bool other) {
        const BufferView view = buffers.first(12);
        return other ? Request::broadcast(view, 0) : Request::all_reduce(view, view);
      },
      "all_reduce of 12 float32 with sum (at", "broadcast of 12 float32 from root 0 (at");
}

TEST(ChecksDetail, AnotherCount) {
  expect_detail_finds(
      [](Buffers& buffers, World&, bool other) {
        const BufferView view = buffers.first(other ? 11 : 12);
        return Request::all_reduce(view, view);
      },
      "all_reduce of 12 float32 with sum", "all_reduce of 11 float32 with sum");
}

TEST(ChecksDetail, AnotherDtype) {
  expect_detail_finds(
      [](Buffers& buffers, World&, bool other) {
        const BufferView view = other ? BufferView(buffers.ints) : BufferView(buffers.floats);
        return Request::all_reduce(view, view);
      },
      "all_reduce of 64 float32 with sum", "all_reduce of 64 int32 with sum");
}

TEST(ChecksDetail, AnotherShape) {
  static constexpr std::array<std::int64_t, 2> wide{3, 4};
  static constexpr std::array<std::int64_t, 2> high{4, 3};
  in_detail([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world);
    Buffers buffers;
    BufferView view = buffers.first(12);
    view.shape = is_last(world) ? high : wide;
    const std::string last = "but [4, 3] on rank " + std::to_string(world.size() - 1);
    expect_error(ErrorKind::usage, [&] { group.all_reduce(view); },
                 {"all_reduce of 12 float32 with sum", "the shape is [3, 4] on rank 0", last});
    view.shape = wide;
    group.all_reduce(view);
    EXPECT_EQ(buffers.floats.front(), static_cast<float>(world.size()));
  });
}

/// That the last rank's call is refused on all, whichever path carries it, and the group goes on.
void expect_other_size(World& world, const char* path,
                       const std::function<void(ProcessGroup&)>& call, const std::string& usual,
                       const std::string& odd) {
  NEEDS_RANKS(2);
  SCOPED_TRACE(path);
  ProcessGroup group = world.new_group(everybody(world), {.path = path});
  const std::string last = odd + " on rank " + std::to_string(world.size() - 1);
  expect_error(ErrorKind::usage, [&] { call(group); },
               {"ranks make different calls", usual + " on rank 0, but", last});
  EXPECT_EQ(group.all_reduced(1), world.size());
}

const std::vector<const char*>& paths() {
  static const std::vector<const char*> of_threads = {"threads", "exchange"};
  static const std::vector<const char*> of_processes = {"shm", "mpi", "mpi_p2p", "exchange"};
  return ranks_are_threads() ? of_threads : of_processes;
}

TEST(ChecksDetail, BundlesOfAnotherSize) {
  in_detail([](World& world) {
    std::vector<std::vector<float>> buffers(9, std::vector<float>(50));
    const std::vector<BufferView> views(buffers.begin(), buffers.end());
    for (const char* path : paths()) {
      expect_other_size(
          world, path,
          [&](ProcessGroup& group) {
            broadcast_coalesced(group, views, is_last(world) ? 1024 : 256, 0);
          },
          "a bundle of broadcast_coalesced has 256 bytes", "1024 bytes");
      expect_other_size(
          world, path,
          [&](ProcessGroup& group) {
            std::vector<BufferView> bytes;
            for (std::vector<float>& buffer : buffers)
              bytes.emplace_back(buffer.data(), 200, DataType::uint8);
            if (!is_last(world)) return broadcast_coalesced(group, bytes, 256, 0);
            coalesce(group, [&] {
              for (const BufferView& view : bytes) group.broadcast(view, 0);
            });
          },
          "has 256 bytes", "no size of its own");
    }
  });
}

TEST(ChecksDetail, ValuesOfAnotherSize) {
  struct Three {
    std::array<std::int32_t, 3> numbers{};
  };
  struct Four {
    std::array<std::int32_t, 4> numbers{};
  };
  in_detail([](World& world) {
    Three three;
    Four four;
    for (const char* path : paths())
      expect_other_size(
          world, path,
          [&](ProcessGroup& group) {
            group.broadcast(is_last(world) ? value_of(four) : value_of(three), 0);
          },
          "a value has 12 bytes", "16 bytes");
  });
}

TEST(ChecksDetail, AnotherReduction) {
  expect_detail_finds(
      [](Buffers& buffers, World&, bool other) {
        const BufferView view = buffers.first(3);
        return Request::reduce(view, view, 0, other ? ReduceOp::max : ReduceOp::sum);
      },
      "reduce of 3 float32 with sum to root 0", "reduce of 3 float32 with max to root 0");
}

TEST(ChecksDetail, AnotherRoot) {
  expect_detail_finds(
      [](Buffers& buffers, World&, bool other) {
        return Request::broadcast(buffers.first(3), other ? 1 : 0);
      },
      "broadcast of 3 float32 from root 0", "broadcast of 3 float32 from root 1");
}

TEST(ChecksDetail, AnotherForm) {
  static const std::vector<std::size_t> counts(16, 2);
  expect_detail_finds(
      [](Buffers& buffers, World& world, bool other) {
        const BufferView out = buffers.out(2 * ranks_as_size(world));
        const auto given = std::span(counts).first(ranks_as_size(world));
        return Request::all_gather(
            buffers.first(2), other ? OutputBlocks::counted(out, given) : OutputBlocks::equal(out));
      },
      "all_gather of 2 float32 (at", "all_gather of");
}

TEST(ChecksDetail, AnotherOrder) {
  in_detail([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world);
    float value = 1;
    const auto reduce = [&] { group.all_reduce(view_of(value)); };
    const auto meet = [&] { group.barrier(); };
    const std::string odd = "rank " + std::to_string(world.size() - 1) + " calls barrier";
    for (int i = 0; i < 2; ++i) {
      if (is_last(world))
        expect_error(ErrorKind::usage, meet, {odd, "all_reduce of 1 float32", "barrier #1"});
      else
        expect_error(ErrorKind::usage, reduce, {odd, "all_reduce of 1 float32", "all_reduce #1"});
    }
    expect_group_works(group);
  });
}

TEST(ChecksDetail, BlocksThatDoNotFit) {
  in_detail([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world);
    Buffers buffers;
    const std::size_t ranks = ranks_as_size(world);
    // The last rank expects one element more from rank 0 than that one has for it.
    const std::vector<std::size_t> gives(ranks, 2);
    std::vector<std::size_t> takes(ranks, 2);
    if (is_last(world)) takes[0] = 3;
    const std::size_t taken = std::accumulate(takes.begin(), takes.end(), std::size_t{0});
    const std::string words =
        "rank 0 sends rank " + std::to_string(world.size() - 1) + " 2 elements, which expects 3";
    expect_error(
        ErrorKind::usage,
        [&] { group.all_to_all(buffers.first(2 * ranks), gives, buffers.out(taken), takes); },
        {words, "all_to_all of float32 in blocks of given counts"});
    takes.assign(ranks, 2);
    group.all_to_all(buffers.first(2 * ranks), gives, buffers.out(2 * ranks), takes);
  });
}

/// Every form of every call, as it should be: nothing is said, on any rank.
TEST(ChecksDetail, RightCallsPass) {
  in_detail([](World& world) {
    ProcessGroup group = fresh_group(world);
    const std::size_t ranks = ranks_as_size(world);
    const auto me = static_cast<std::size_t>(world.rank());
    const int last = world.size() - 1;
    std::vector<float> in(ranks * ranks, 1.0f);
    std::vector<float> out(ranks * ranks * ranks);
    const BufferView all(out);
    std::vector<std::size_t> counts(ranks);
    std::iota(counts.begin(), counts.end(), std::size_t{0});
    const std::size_t sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    const ConstBufferView own = BufferView(in).slice(0, me);
    std::vector<BufferView> outs;
    std::vector<ConstBufferView> ins;
    for (std::size_t i = 0, at = 0; i < ranks; at += counts[i++]) {
      outs.push_back(all.slice(at, counts[i]));
      ins.push_back(BufferView(in).slice(at, counts[i]));
    }
    const bool root = world.rank() == last;
    group.reduce(in, all.slice(0, root ? in.size() : 0), last);
    group.broadcast(BufferView(in), last);
    group.gather(own, root ? std::span<const BufferView>(outs) : std::span<const BufferView>(),
                 last);
    group.gather(own, all.slice(0, root ? sum : 0), counts, last);
    group.gather(view_of(in[0]), all.slice(0, root ? ranks : 0), last);
    group.scatter(root ? std::span<const ConstBufferView>(ins) : std::span<const ConstBufferView>(),
                  all.slice(0, me), last);
    group.scatter(BufferView(in).slice(0, root ? sum : 0), counts, all.slice(0, me), last);
    group.all_gather(own, outs);
    group.all_gather(own, all.slice(0, sum), counts);
    group.reduce_scatter(ins, all.slice(0, me));
    group.reduce_scatter(BufferView(in).slice(0, sum), counts, all.slice(0, me));
    // Rank i gives rank j i elements.
    const std::vector<std::size_t> gives(ranks, me);
    group.all_to_all(BufferView(in).slice(0, me * ranks), gives, all.slice(0, sum), counts);
    group.barrier();
    expect_group_works(group);
  });
}

/// Some do not come: all others must name those, and give the group up.
void expect_missed(World& world, std::vector<int> missing) {
  ProcessGroup group = fresh_group(world);
  group.barrier();
  const bool comes = std::find(missing.begin(), missing.end(), world.rank()) == missing.end();
  std::int32_t one = 1;
  const auto call = [&] {
    group.all_reduce(view_of(one), ReduceOp::sum, {.timeout = Timeout(500ms)});
  };
  if (comes) {
    try {
      call();
      ADD_FAILURE() << "completed";
    } catch (const Error& error) {
      // Who comes after another's limit has passed is told so at once.
      EXPECT_TRUE(error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::aborted)
          << error.what();
      // Each waits for a word of the ranks that wait for it, or for another one that does: where
      // that has been found out, it is told, and who only waits for another one is not named.
      const std::string text = error.what();
      for (const int rank : missing)
        EXPECT_TRUE(std::ranges::count(error.context().missing, rank) == 1 ||
                    text.find("rank " + std::to_string(rank) + " waits for") != text.npos)
            << text;
    }
    expect_error(ErrorKind::aborted, [&] { group.barrier(); });
  }
  EXPECT_EQ(group.collective_sequence(), 1u);
  EXPECT_EQ(one, 1);
  for (const int rank : missing) wait_for_others(world, rank);
  // With time enough: the news that the group was given up may come after those messages.
  if (!comes)
    expect_error(ErrorKind::aborted, [&] { group.all_reduce(view_of(one)); }, {"all_reduce #2"});
  // Who ends early is missed by others, too.
  world.group().barrier();
}

TEST(ChecksDetail, TheLastDoesNotCome) {
  in_detail([](World& world) {
    NEEDS_RANKS(2);
    expect_missed(world, {world.size() - 1});
  });
}

TEST(ChecksDetail, TheFirstDoesNotCome) {
  in_detail([](World& world) {
    NEEDS_RANKS(2);
    expect_missed(world, {0});
  });
}

TEST(ChecksDetail, TheFirstAndTheLastDoNotCome) {
  in_detail([](World& world) {
    NEEDS_RANKS(4);
    expect_missed(world, {0, world.size() - 1});
  });
}

TEST(ChecksDetail, WhatIsInFlightMovesOnMeanwhile) {
  in_detail([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world);
    std::vector<float> values(300'000, 1.0f);
    Work work = group.all_reduce_async(values);
    // Half of them come to the next call only when the first has completed, everywhere.
    if (world.rank() % 2 == 1) work.wait();
    group.barrier();
    work.wait();
    EXPECT_EQ(values.back(), static_cast<float>(world.size()));
  });
}

TEST(ChecksDetail, ACallThatIsRefusedHereIsWaitedFor) {
  in_detail([](World& world) {
    NEEDS_RANKS(2);
    ProcessGroup group = fresh_group(world);
    std::vector<float> values(4, 1.0f);
    if (is_last(world))
      expect_error(ErrorKind::usage, [&] { group.broadcast(values, world.size()); });
    group.broadcast(values, 0);
    EXPECT_EQ(group.collective_sequence(), 1u);
  });
}

/// Level info: calls are made, and differ; then the group is given up on all ranks, and both calls
/// are told.
void expect_info_finds(MakeRequest make, std::vector<std::string> words) {
  on_ranks(
      [&](World& world) {
        NEEDS_RANKS(2);
        // Of all paths the one that looks least at what comes.
        ProcessGroup group = fresh_group(world, {.path = "exchange"});
        Buffers buffers;
        const Request request = make(buffers, world, is_last(world));
        std::string told;
        const auto before = std::chrono::steady_clock::now();
        const auto call = [&](const Request& made) {
          try {
            group.run(made, {.timeout = Timeout(20s)});
          } catch (const Error& error) {
            told = error.what();
          }
        };
        call(request);
        while (told.empty() && std::chrono::steady_clock::now() - before < 20s)
          call(Request::barrier());
        for (const std::string& word : words) EXPECT_NE(told.find(word), std::string::npos) << told;
        expect_error(ErrorKind::aborted, [&] { group.barrier(); }, {"different calls: #1 is"});
        world.group().barrier();
      },
      {.checks = CheckLevel::info});
}

TEST(ChecksInfo, AnotherDtype) {
  expect_info_finds(
      [](Buffers& buffers, World&, bool other) {
        const BufferView view = other ? BufferView(buffers.ints) : BufferView(buffers.floats);
        return Request::all_reduce(view, view);
      },
      {"ranks make different calls", "all_reduce of 64 float32 with sum",
       "all_reduce of 64 int32 with sum"});
}

TEST(ChecksInfo, AnotherReduction) {
  expect_info_finds(
      [](Buffers& buffers, World&, bool other) {
        const BufferView view(buffers.floats);
        return Request::all_reduce(view, view, other ? ReduceOp::max : ReduceOp::sum);
      },
      {"all_reduce of 64 float32 with sum", "all_reduce of 64 float32 with max"});
}

// The last rank only sends in either, and nobody gets more than it awaits, which the path itself
// would find out.
TEST(ChecksInfo, AnotherOperation) {
  expect_info_finds(
      [](Buffers& buffers, World&, bool other) {
        const BufferView in = buffers.first(1);
        return other ? Request::gather(in, OutputBlocks::equal(buffers.out(0)), 0)
                     : Request::reduce(in, buffers.out(1), 0);
      },
      {"reduce of 1 float32 with sum to root 0", "gather of 1 float32 to root 0"});
}

TEST(ChecksInfo, AnotherRoot) {
  expect_info_finds([](Buffers& buffers, World&,
                       bool other) { return Request::broadcast(buffers.first(3), other ? 1 : 0); },
                    {"broadcast of 3 float32 from root 0", "broadcast of 3 float32 from root 1"});
}

TEST(ChecksInfo, RightCallsPass) {
  on_ranks(
      [](World& world) {
        ProcessGroup group = fresh_group(world);
        std::vector<float> out(ranks_as_size(world));
        const float mine = 1;
        for (int i = 0; i < 5; ++i) {
          expect_group_works(group);
          group.gather(view_of(mine), out, 0);
          group.all_gather_async(view_of(mine), out).wait();
        }
      },
      {.checks = CheckLevel::info});
}

}  // namespace
}  // namespace hymn::test
