// Sparse tensors in groups with GPUs: those in memory of the host are reduced there, others
// refused.
#include "hymn/sparse.hpp"
#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {
namespace {

class GpuSparse : public ToyGpuTest {};

const std::vector<std::int64_t> shape{5, 2};
const std::vector<std::int64_t> indices{4};

constexpr const char* refusal = "NCCL does not support all_reduce with sparse tensors";

// There torch.distributed lets the error pass, too.
TEST_F(GpuSparse, test_ddp_set_sparse_metadata) {
  gpus.run([this](World& world) {
    Buffer values(gpus, world.rank(), {1, 2});
    const std::vector<std::int64_t> declared{0, 1, 2, 3, 4};
    const SparseView tensor{.shape = shape, .indices = indices, .values = values.view()};
    EXPECT_THAT(thrown_by<UnsupportedError>(
                    [&] { all_reduce_sparse(world.group(), tensor, {.declared = declared}); }),
                HasSubstr(refusal));
    EXPECT_THAT(thrown_by<UnsupportedError>([&] { all_reduce_sparse(world.group(), tensor); }),
                HasSubstr("memory of the host"));
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("all_reduce"), 0);
}

TEST_F(GpuSparse, OnOneRankAloneIsRefusedOnAll) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    Buffer values(gpus, me, {1, 2});
    ToyBuffer<std::int64_t> far(gpus, me, {4});
    const Ints host{1, 2};
    SparseView tensor{.shape = shape, .indices = indices, .values = host};
    if (me == 1) tensor.values = values.view();
    const auto call = [&] { all_reduce_sparse(world.group(), tensor); };
    EXPECT_THAT(thrown_by<UnsupportedError>(call), HasSubstr(std::string("rank 1: ") + refusal));
    tensor.values = host;
    if (me == 0) tensor.indices = {far.data(), 1};
    EXPECT_THAT(thrown_by<UnsupportedError>(call), HasSubstr(std::string("rank 0: ") + refusal));
    // Said to be there, without a byte.
    tensor = {.shape = shape, .values = {nullptr, 0, DataType::int32, MemoryKind::device}};
    EXPECT_THAT(thrown_by<UnsupportedError>(call), HasSubstr(std::string("ranks 0-1: ") + refusal));
    world.group().barrier();
  });
}

TEST_F(GpuSparse, InMemoryOfTheHostTheyAreReduced) {
  gpus.run([this](World& world) {
    Buffer pinned(gpus, world.rank(), {1, 2}, MemoryKind::pinned);
    const SparseTensor result = all_reduce_sparse(
        world.group(), {.shape = shape, .indices = indices, .values = pinned.view()});
    EXPECT_EQ(result.indices, indices);
    const auto values = result.values_as<std::int32_t>();
    EXPECT_EQ(Ints(values.begin(), values.end()), (Ints{2, 4}));
    world.group().barrier();
  });
}

}  // namespace
}  // namespace hymn::test
