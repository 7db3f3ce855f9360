// Reductions of float16 and bfloat16 through NCCL in float32: ranks as threads over doubles of the
// driver and of NCCL, which round at each hop as NCCL does, and run the kernels' own bodies.
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "runtime/c_api/c_api.hpp"
#include "tests/unit/gpu_float32.hpp"

namespace hymn::test {
namespace {

class GpuFloat32 : public Float32Test {
 protected:
  template <class Half>
  void check_all_reduce();
  template <class Half>
  void check_against_host();
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
    all_reduce_together(world.group(), views);
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
    EXPECT_THAT(
        thrown_by<ConfigError>(
            [&] { world.new_group({0, 1, 2, 3}, {.nccl = {.reduce_in_float32 = true}}); }),
        HasSubstr("reduce_in_float32 is requested of NCCL, but rank 0 cannot do it: the GPU has no "
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
                HasSubstr(cuda::kernel_image().empty() ? "this build of hymn has no GPU kernels"
                                                       : "cuModuleLoadData"));
    world.group().barrier();
  });
}

}  // namespace
}  // namespace hymn::test
