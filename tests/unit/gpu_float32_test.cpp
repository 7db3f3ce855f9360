// Reductions of float16 and bfloat16 through NCCL in float32: ranks as threads over doubles of the
// driver and of NCCL, which round at each hop as NCCL does, and run the kernels' own bodies.
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "collectives/cuda/kernel_image.hpp"
#include "runtime/c_api/c_api.hpp"
#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {
namespace {

constexpr int ranks = 4;
constexpr std::size_t odd = 1003;  ///< elements: no whole number of packs

/// What is added to 1 and lost, though not three of them.
template <class Half>
constexpr float small = std::is_same_v<Half, float16> ? 0x1p-12f : 0x1p-9f;
/// 1 and three of them, rounded once: the next number.
template <class Half>
constexpr float rounded_once = std::is_same_v<Half, float16> ? 1 + 0x1p-10f : 1 + 0x1p-7f;

class GpuFloat32 : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_image().empty())
      GTEST_SKIP() << "hymn was built without nvcc: there are no kernels for GPUs";
    config.nccl.reduce_in_float32 = true;
  }
  ~GpuFloat32() override {
    EXPECT_THAT(gpus.violations(), IsEmpty());
    EXPECT_TRUE(eventually([this] { return gpus.open_on_streams() == 0; }))
        << gpus.open_on_streams() << " allocations are left";
  }
  void run(const std::function<void(World&)>& body) { gpus.run(body, {}, config); }

  /// 1 on the first rank, little on the others, times a power of two that the element tells.
  template <class Half>
  static std::vector<Half> given(int rank, std::size_t count = odd) {
    std::vector<Half> values;
    for (std::size_t i = 0; i < count; ++i)
      values.emplace_back(std::ldexp(rank == 0 ? 1.0f : small<Half>, static_cast<int>(i % 3)));
    return values;
  }
  template <class Half>
  static std::vector<Half> sums(float one, std::size_t count = odd) {
    std::vector<Half> values;
    for (std::size_t i = 0; i < count; ++i)
      values.emplace_back(std::ldexp(one, static_cast<int>(i % 3)));
    return values;
  }

  static std::vector<std::vector<bfloat16>> all_given() {
    std::vector<std::vector<bfloat16>> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(given<bfloat16>(rank));
    return all;
  }

  template <class Half>
  void check_all_reduce();
  template <class Half>
  void check_against_host();

  ToyGpus gpus{ranks};
  Config config;
};

template <class Half>
void GpuFloat32::check_all_reduce() {
  run([this](World& world) {
    const int me = world.rank();
    ProcessGroup hops =
        world.new_group({0, 1, 2, 3}, {.path = "nccl", .nccl = {.reduce_in_float32 = false}});
    ToyBuffer<Half> apart(gpus, me, given<Half>(me));
    ToyBuffer<Half> out(gpus, me, std::vector<Half>(odd));
    hops.all_reduce(apart.view(), out.view());
    EXPECT_EQ(out.values(), sums<Half>(1)) << "rounded at each hop, as NCCL does";
    Work work = world.group().all_reduce_async(apart.view(), out.view());
    EXPECT_EQ(work.path(), "nccl");
    EXPECT_EQ(work.algorithm(), "all_reduce_float32");
    work.wait();
    EXPECT_EQ(out.values(), sums<Half>(rounded_once<Half>));
    EXPECT_EQ(apart.values(), given<Half>(me)) << "the input stays";
    world.group().all_reduce(apart.view());
    EXPECT_EQ(apart.values(), sums<Half>(rounded_once<Half>)) << "in place";
    ToyBuffer<Half> nothing(gpus, me, {});
    world.group().all_reduce(nothing.view());
    world.group().barrier();
  });
}
TEST_F(GpuFloat32, Bfloat16IsRoundedOnce) { check_all_reduce<bfloat16>(); }
TEST_F(GpuFloat32, Float16IsRoundedOnce) { check_all_reduce<float16>(); }

TEST_F(GpuFloat32, TheRootOfAReduceGetsIt) {
  run([this](World& world) {
    const int me = world.rank();
    ToyBuffer<bfloat16> in(gpus, me, given<bfloat16>(me));
    ToyBuffer<bfloat16> out(gpus, me, std::vector<bfloat16>(odd, bfloat16(7)));
    world.group().reduce(in.view(), out.view(), 2);
    EXPECT_EQ(out.values(), me == 2 ? sums<bfloat16>(rounded_once<bfloat16>)
                                    : std::vector<bfloat16>(odd, bfloat16(7)));
    world.group().reduce(in.view(), 1);
    EXPECT_EQ(in.values(), me == 1 ? sums<bfloat16>(rounded_once<bfloat16>) : given<bfloat16>(me));
    world.group().barrier();
  });
}

TEST_F(GpuFloat32, BlocksOfAReduceScatterAreEqualOrNot) {
  run([this](World& world) {
    const int me = world.rank();
    constexpr std::size_t each = 7;
    ToyBuffer<bfloat16> in(gpus, me, given<bfloat16>(me, ranks * each));
    const std::vector<bfloat16> all = sums<bfloat16>(rounded_once<bfloat16>, ranks * each);
    const auto part = [&all](std::size_t begin, std::size_t count) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
      return std::vector<bfloat16>(first, first + static_cast<std::ptrdiff_t>(count));
    };
    const auto my = static_cast<std::size_t>(me);
    ToyBuffer<bfloat16> out(gpus, me, std::vector<bfloat16>(each));
    world.group().reduce_scatter(in.view(), out.view());
    EXPECT_EQ(out.values(), part(my * each, each));

    const std::array<std::size_t, ranks> counts{1, 0, 9, 18};
    ToyBuffer<bfloat16> some(gpus, me, std::vector<bfloat16>(counts.at(my)));
    Work work = world.group().start(
        Request::reduce_scatter(InputBlocks::counted(in.view(), counts), some.view()));
    EXPECT_EQ(work.algorithm(), "reduce_scatter_float32");
    work.wait();
    EXPECT_EQ(
        some.values(),
        part(std::accumulate(counts.begin(), counts.begin() + me, std::size_t{0}), counts.at(my)));
    world.group().barrier();
  });
}

// Both fold in the order of the ranks here, so that not a bit may differ.
template <class Half>
void GpuFloat32::check_against_host() {
  run([this](World& world) {
    const int me = world.rank();
    std::vector<Half> values;
    std::uint32_t random = 12345u + static_cast<std::uint32_t>(me);
    for (std::size_t i = 0; i < odd; ++i) {
      random = random * 1664525u + 1013904223u;
      values.emplace_back(std::ldexp(static_cast<float>(random >> 8), -24) + 0.25f);
    }
    for (const ReduceOp& op :
         {ReduceOp::sum, ReduceOp::product, ReduceOp::avg, ReduceOp::premul_sum(0.3 * (me + 1))}) {
      ToyBuffer<Half> buffer(gpus, me, values);
      std::vector<Half> on_host = values;
      world.group().all_reduce(buffer.view(), op);
      world.group().all_reduce(on_host, op);
      const std::vector<Half> found = buffer.values();
      EXPECT_EQ(std::memcmp(found.data(), on_host.data(), odd * sizeof(Half)), 0)
          << to_string(op.kind());
    }
  });
}
TEST_F(GpuFloat32, GivesTheBitsOfTheHostForBfloat16) { check_against_host<bfloat16>(); }
TEST_F(GpuFloat32, GivesTheBitsOfTheHostForFloat16) { check_against_host<float16>(); }

TEST_F(GpuFloat32, ComesInTheOrderOfAStream) {
  run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    ToyBuffer<bfloat16> buffer(gpus, me, std::vector<bfloat16>(odd));
    const std::vector<bfloat16> values = given<bfloat16>(me);
    gpus.enqueue(stream, [&] { std::copy(values.begin(), values.end(), buffer.data()); });
    // The first call finds the communicator in progress: what comes behind it must wait for that.
    world.group().all_reduce(buffer.view(), {}, {.stream = stream});
    std::vector<bfloat16> behind;
    gpus.enqueue(stream, [&] { behind = buffer.values(); });
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_EQ(behind, sums<bfloat16>(rounded_once<bfloat16>));
    world.group().barrier();
  });
}

TEST_F(GpuFloat32, GoesIntoAGraph) {
  run([this](World& world) {
    const int me = world.rank();
    void* const stream = gpus.make_stream(me);
    ToyBuffer<bfloat16> in(gpus, me, given<bfloat16>(me));
    ToyBuffer<bfloat16> out(gpus, me, std::vector<bfloat16>(odd));
    world.group().all_reduce(in.view(), out.view());
    world.group().barrier();
    std::fill(out.data(), out.data() + odd, bfloat16(0));
    gpus.capture(stream);
    world.group().all_reduce(in.view(), out.view(), {}, {.stream = stream});
    gpus.end_capture(stream);
    EXPECT_EQ(out.values(), std::vector<bfloat16>(odd)) << "nothing has run yet";
    for (int launch = 0; launch < 2; ++launch) {
      world.group().barrier();
      std::fill(out.data(), out.data() + odd, bfloat16(0));
      gpus.launch_graph(stream);
      EXPECT_TRUE(gpus.synchronize(stream));
      EXPECT_EQ(out.values(), sums<bfloat16>(rounded_once<bfloat16>));
    }
    world.group().barrier();
  });
}

TEST_F(GpuFloat32, CoalescedCallsAreOneGroupOfNccl) {
  run([this](World& world) {
    const int me = world.rank();
    ToyBuffer<bfloat16> a(gpus, me, given<bfloat16>(me));
    ToyBuffer<float16> b(gpus, me, given<float16>(me, 5));
    Buffer c(gpus, me, {me});
    const std::array<BufferView, 3> views{a.view(), b.view(), c.view()};
    world.group().all_reduce_coalesced(views);
    EXPECT_EQ(a.values(), sums<bfloat16>(rounded_once<bfloat16>));
    EXPECT_EQ(b.values(), sums<float16>(rounded_once<float16>, 5));
    EXPECT_EQ(c.values(), Ints{6});
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("group"), ranks) << "the first two, on each rank";
}

// --- What is told

TEST_F(GpuFloat32, IsExplained) {
  run([this](World& world) {
    ToyBuffer<bfloat16> buffer(gpus, world.rank(), given<bfloat16>(world.rank()));
    BufferView view = buffer.view();
    view.memory = MemoryKind::device;
    const auto find = [](const Explanation& told, std::string_view name) {
      for (const Candidate& candidate : told.candidates)
        if (candidate.algorithm == name) return candidate;
      return Candidate{};
    };
    const Explanation told = world.group().explain(Request::all_reduce(view, view));
    EXPECT_EQ(told.algorithm, "all_reduce_float32");
    EXPECT_EQ(find(told, "all_reduce_float32").promises, Reproducibility::ranks);
    EXPECT_GT(find(told, "all_reduce_float32").predicted_us, 0);
    EXPECT_EQ(find(told, "all_reduce_nccl").reason,
              "reduce_in_float32: bfloat16 is not to be rounded at each hop");
    EXPECT_EQ(find(world.group().explain(Request::all_reduce(view, view, ReduceOp::max)),
                   "all_reduce_float32")
                  .reason,
              "max rounds nothing");
    EXPECT_EQ(world.group().explain(Request::broadcast(view, 0)).algorithm, "broadcast_nccl");
    view.dtype = DataType::int32;
    view.count /= 2;
    const Explanation whole = world.group().explain(Request::all_reduce(view, view));
    EXPECT_EQ(whole.algorithm, "all_reduce_nccl");
    EXPECT_EQ(find(whole, "all_reduce_float32").reason, "int32 is not reduced in float32");
    ProcessGroup strict = world.new_group({0, 1, 2, 3}, {.reproducibility = Reproducibility::runs});
    view = buffer.view();
    view.memory = MemoryKind::device;
    EXPECT_THAT(find(strict.explain(Request::all_reduce(view, view)), "all_reduce_float32").reason,
                HasSubstr("not reproducible enough"));
    world.group().barrier();
  });
}

TEST_F(GpuFloat32, BetweenHostsNcclDoesNotRoundEither) {
  config.path = PathPolicy::parse("cuda_p2p,nccl,staged,exchange,threads", "HYMN_PATH");
  gpus.run_on_hosts(
      {2, 2},
      [this](World& world) {
        const int me = world.rank();
        ToyBuffer<bfloat16> buffer(gpus, me, given<bfloat16>(me));
        BufferView view = buffer.view();
        view.memory = MemoryKind::device;
        std::string reason;
        for (const Candidate& candidate :
             world.group().explain(Request::all_reduce(view, view)).candidates)
          if (candidate.algorithm == "all_reduce_hierarchical_nccl") reason = candidate.reason;
        EXPECT_EQ(reason, "reduce_in_float32: bfloat16 is not to be rounded at each hop");
        world.group().barrier();
      },
      config);
}

TEST_F(GpuFloat32, IsAskedForByTheCApi) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    hymnWorld handle{.own = {}, .world = &world, .group = {}};
    hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
    options.nccl_reduce_in_float32 = 1;
    const std::array<int, ranks> all{0, 1, 2, 3};
    hymnGroup_t group = nullptr;
    ASSERT_EQ(hymnGroupCreate(&handle, all.data(), ranks, &options, &group), hymnSuccess);
    ToyBuffer<bfloat16> buffer(gpus, me, given<bfloat16>(me));
    EXPECT_EQ(
        hymnAllReduce(buffer.data(), buffer.data(), odd, hymnBfloat16, hymnSum, group, nullptr),
        hymnSuccess);
    EXPECT_EQ(buffer.values(), sums<bfloat16>(rounded_once<bfloat16>));
    EXPECT_EQ(hymnGroupFree(group), hymnSuccess);
    world.group().barrier();
  });
}

// --- What is refused, on all members alike

TEST_F(GpuFloat32, GpusWithoutMemoryPoolsAreRefused) {
  gpus.take_memory_pools();
  gpus.run([](World& world) {
    EXPECT_THAT(thrown_by<ConfigError>(
                    [&] { world.new_group({0, 1, 2, 3}, {.nccl = {.reduce_in_float32 = true}}); }),
                HasSubstr("reduce_in_float32 is asked of NCCL, but rank 0 cannot: the GPU has no "
                          "memory pools"));
    world.group().barrier();
  });
}

TEST_F(GpuFloat32, MembersThatDifferAreRefused) {
  gpus.run([](World& world) {
    EXPECT_THAT(thrown_by<ConfigError>([&] {
                  world.new_group({0, 1, 2, 3}, {.nccl = {.reduce_in_float32 = world.rank() == 1}});
                }),
                HasSubstr("reduce_in_float32"));
  });
}

TEST(GpuFloat32Refusals, ABuildWithoutKernelsIsRefused) {
  ToyGpus gpus(2);
  // What a build with kernels meets where the driver does not take them.
  if (!cuda::kernel_image().empty()) gpus.fail("load_module", cuda_api::no_binary_for_gpu);
  gpus.run([](World& world) {
    EXPECT_THAT(thrown_by<ConfigError>(
                    [&] { world.new_group({0, 1}, {.nccl = {.reduce_in_float32 = true}}); }),
                HasSubstr(cuda::kernel_image().empty() ? "this build of hymn has no kernels"
                                                       : "cuModuleLoadData"));
    world.group().barrier();
  });
}

// --- What fails

/// One buffer for each rank. They outlive the worlds: what was given up is still on its way.
class Buffers {
 public:
  Buffers(ToyGpus& gpus, const std::vector<std::vector<bfloat16>>& values) : gpus_(gpus) {
    for (int rank = 0; rank < ranks; ++rank)
      buffers_.push_back(std::make_unique<ToyBuffer<bfloat16>>(
          gpus, rank, values.at(static_cast<std::size_t>(rank))));
  }
  /// Nothing is left that was there for the time of an operation: all kernels have run.
  ~Buffers() {
    EXPECT_TRUE(eventually([this] { return gpus_.open_on_streams() == 0; }))
        << gpus_.open_on_streams() << " allocations are left";
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  BufferView of(const World& world) const {
    return buffers_.at(static_cast<std::size_t>(world.rank()))->view();
  }

 private:
  ToyGpus& gpus_;
  std::vector<std::unique_ptr<ToyBuffer<bfloat16>>> buffers_;
};

/// The next call of that name fails on some rank; all others hear of it.
class GpuFloat32Failures : public GpuFloat32, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Calls, GpuFloat32Failures,
                         testing::Values("allocate_on", "launch", "all_reduce", "release_on"));

TEST_P(GpuFloat32Failures, NothingIsTakenForASumAndNothingIsLeft) {
  const Buffers buffers(gpus, all_given());
  std::atomic<int> failed = 0;
  run([&](World& world) {
    ProcessGroup group = world.new_group({0, 1, 2, 3});
    group.all_reduce(buffers.of(world));
    group.barrier();
    if (world.rank() == 0) gpus.fail(GetParam(), GetParam() == std::string("all_reduce") ? 2 : 719);
    group.barrier();
    try {
      group.all_reduce(buffers.of(world));
      // Another rank failed when this one had its sum.
      const auto* const sum = static_cast<const bfloat16*>(buffers.of(world).data);
      EXPECT_EQ(std::vector<bfloat16>(sum, sum + odd),
                sums<bfloat16>(ranks * rounded_once<bfloat16>));
    } catch (const Error&) {
      ++failed;
    }
    world.group().barrier();
  });
  EXPECT_GE(failed, 1);
}

TEST_F(GpuFloat32, WhatIsAbortedFreesItsMemoryWhenNcclHasLetGo) {
  const Buffers buffers(gpus, all_given());
  run([&](World& world) {
    ProcessGroup group = world.new_group({0, 1, 2, 3});
    group.all_reduce(buffers.of(world));
    group.barrier();
    if (world.rank() == 0) {
      gpus.hold("collective");
      gpus.hold("abort");
    }
    group.barrier();
    Work work = group.all_reduce_async(buffers.of(world));
    EXPECT_TRUE(eventually([&] { return work.test(), gpus.count("all_reduce") == 2 * ranks; }));
    world.group().barrier();
    group.abort("the test wants it so");
    EXPECT_THAT(thrown_by<AbortedError>([&] { work.wait(); }), HasSubstr("the test wants it so"));
    world.group().barrier();
    EXPECT_EQ(gpus.open_on_streams(), ranks) << "NCCL is still at it";
    world.group().barrier();
    if (world.rank() == 0) gpus.release();
    EXPECT_TRUE(eventually([this] { return gpus.open_on_streams() == 0; }));
    world.group().barrier();
  });
}

// NCCL has been called, but has not come to its stream: what it will put there still needs memory.
TEST_F(GpuFloat32, WhatIsAbortedWhileNcclIsAtItFreesItsMemory) {
  const Buffers buffers(gpus, all_given());
  run([&](World& world) {
    ProcessGroup group = world.new_group({0, 1, 2, 3}, {.nccl = {.init = NcclInit::eager}});
    group.barrier();
    if (world.rank() == 0) gpus.hold("settling");
    group.barrier();
    Work work = group.all_reduce_async(buffers.of(world));
    EXPECT_TRUE(eventually([&] { return work.test(), gpus.count("all_reduce") == ranks; }));
    world.group().barrier();
    group.abort("the test wants it so");
    EXPECT_THAT(thrown_by<AbortedError>([&] { work.wait(); }), HasSubstr("the test wants it so"));
    world.group().barrier();
    if (world.rank() == 0) gpus.release();
    EXPECT_TRUE(eventually([this] { return gpus.open_on_streams() == 0; }));
    world.group().barrier();
  });
}

}  // namespace
}  // namespace hymn::test
