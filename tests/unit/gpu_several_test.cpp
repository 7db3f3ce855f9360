// Groups on another GPU of each rank than its own: ranks as threads over doubles of the driver and
// of NCCL, which notice what is put onto the wrong GPU.
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {
namespace {

constexpr int ranks = 3;
/// Rank i's own GPU is i.
constexpr int second_of(int rank) { return ranks + rank; }

class GpuSeveral : public testing::Test {
 protected:
  ~GpuSeveral() override { EXPECT_THAT(gpus.violations(), IsEmpty()); }
  void run(const std::function<void(World&)>& body, const Config& config = {}) const {
    gpus.run_with_others(ranks, body, config);
  }
  static ProcessGroup on_second(World& world, GroupOptions options = {}) {
    options.gpu = second_of(world.rank());
    return world.new_group({0, 1, 2}, options);
  }
  ToyGpus gpus{2 * ranks};
};

TEST_F(GpuSeveral, CollectivesAreRight) {
  for (const char* const path : {"nccl", "^nccl"})
    run([this, path](World& world) {
      const int me = world.rank();
      const int gpu = second_of(me);
      ASSERT_EQ(world.gpu(), me);
      ProcessGroup group = on_second(world, {.path = path});
      Buffer sum(gpus, gpu, {me + 1, 10 * (me + 1)});
      Work work = group.all_reduce_async(sum.view());
      EXPECT_EQ(work.path(), std::string(path) == "nccl" ? "nccl" : "staged");
      work.wait();
      EXPECT_EQ(sum.values(), (Ints{6, 60}));
      Buffer cast(gpus, gpu, {me, 7 * me});
      group.broadcast(cast.view(), 2);
      EXPECT_EQ(cast.values(), (Ints{2, 14}));
      Buffer mine(gpus, gpu, {100 + me});
      Buffer all(gpus, gpu, {-1, -1, -1});
      group.all_gather(mine.view(), all.view());
      EXPECT_EQ(all.values(), (Ints{100, 101, 102}));
      Buffer part(gpus, gpu, {-1});
      group.reduce_scatter(all.view(), part.view());
      EXPECT_EQ(part.values(), Ints{3 * (100 + me)});
      world.group().barrier();
    });
  for (int rank = 0; rank < ranks; ++rank) EXPECT_THAT(gpus.calls(rank), IsEmpty());
  EXPECT_EQ(gpus.count("init"), ranks);
  EXPECT_EQ(gpus.count("destroy"), ranks);
}

}  // namespace
}  // namespace hymn::test
