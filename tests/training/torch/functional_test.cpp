// Functional collectives of libtorch's tensors, with and without gradients; and tensors that pass
// to hymn's arrays and back.
#include "hymn/torch_functional.hpp"

#include <ATen/DLConvertor.h>

#include "hymn/dlpack.hpp"
#include "hymn/functional.hpp"
#include "tests/training/torch/torch_rank_test.hpp"

namespace hymn::test {
namespace {

namespace tf = hymn::torch::functional;

at::Tensor ones_with_gradient(at::IntArrayRef sizes) {
  return at::ones(sizes).requires_grad_(true);
}

/// Every element is this number.
void expect_all(const at::Tensor& tensor, at::IntArrayRef sizes, double value) {
  ASSERT_TRUE(tensor.defined());
  EXPECT_EQ(tensor.sizes(), sizes);
  EXPECT_TRUE(at::equal(tensor, at::full(sizes, value)));
}

RANK_TEST(GradCollectives, test_all_reduce) {
  const at::Tensor x = at::rand({4}).requires_grad_(true);
  const at::Tensor y = at::rand({4}).requires_grad_(true);
  const at::Tensor sum = tf::all_reduce(x, world.group());
  EXPECT_FALSE(sum.requires_grad());
  (sum + y).sum().backward();
  EXPECT_FALSE(x.grad().defined());
  EXPECT_TRUE(y.grad().defined());
}

tf::Splits one_each(const World& world) {
  return tf::Splits(static_cast<std::size_t>(world.size()), 1);
}

RANK_TEST(TorchFunctionalAutograd, test_all_to_all_single) {
  const std::vector<std::int64_t> sizes{world.size(), 2};
  const at::Tensor input = ones_with_gradient(sizes);
  const at::Tensor out =
      tf::all_to_all_single_autograd(input * 2, one_each(world), one_each(world), world.group()) +
      0;
  expect_all(out, sizes, 2);
  EXPECT_TRUE(out.requires_grad());
  EXPECT_NE(out.grad_fn(), nullptr);
  out.sum().backward();
  expect_all(input.grad(), sizes, 2);
}

RANK_TEST(TorchFunctionalAutograd, test_all_gather_tensor) {
  for (const std::int64_t dimension : {0, 1, 2, -1}) {
    const at::Tensor input = ones_with_gradient({3, 3, 3});
    const at::Tensor all =
        tf::all_gather_tensor_autograd(input * 1.0, dimension, world.group()) * 1.0;
    std::vector<std::int64_t> sizes{3, 3, 3};
    sizes[static_cast<std::size_t>(dimension < 0 ? dimension + 3 : dimension)] *= world.size();
    expect_all(all, sizes, 1);
    all.sum().backward();
    expect_all(input.grad(), {3, 3, 3}, world.size());
  }
}

RANK_TEST(TorchFunctionalAutograd, test_reduce_scatter_tensor) {
  for (const std::int64_t dimension : {0, 1}) {
    std::vector<std::int64_t> sizes{3, 3};
    sizes[static_cast<std::size_t>(dimension)] *= world.size();
    const at::Tensor input = ones_with_gradient(sizes);
    const at::Tensor part =
        tf::reduce_scatter_tensor_autograd(input * 1.0, dimension, world.group()) * 1.0;
    expect_all(part, {3, 3}, world.size());
    part.sum().backward();
    expect_all(input.grad(), sizes, 1);
  }
}

// What is uneven comes back to where it was, and a gradient that is undefined is one of zeros.
RANK_TEST(TorchFunctionalAutograd, UnevenPartsComeBack) {
  tf::Splits in;
  tf::Splits out;
  for (int rank = 0; rank < world.size(); ++rank) {
    in.push_back(rank);  // rank 0 gets nothing
    out.push_back(world.rank());
  }
  const std::int64_t rows = world.size() * (world.size() - 1) / 2;
  const at::Tensor input = some_input(world.rank(), 0, {rows, 3}).requires_grad_(true);
  const at::Tensor there = tf::all_to_all_single_autograd(input, out, in, world.group());
  EXPECT_EQ(there.size(0), world.rank() * world.size());
  (there * there).sum().backward();
  expect_close(input.grad(), 2 * input.detach(), "gradient");
}

RANK_TEST(TorchFunctional, GivesWhatTheTensorsHold) {
  const at::Tensor mine = some_input(world.rank(), 1, {2, 3}).t();
  const at::Tensor before = mine.clone();
  const int root = world.size() - 1;
  EXPECT_TRUE(at::equal(tf::broadcast(mine, root, world.group()), some_input(root, 1, {2, 3}).t()));
  expect_close(tf::all_reduce(mine, world.group(), hymnAvg), average_of(world, mine, mine), "avg");
  EXPECT_TRUE(at::equal(mine, before));
  const at::Tensor rows = at::full({world.size(), 2}, world.rank());
  const at::Tensor turned = tf::all_to_all_single(rows, {}, {}, world.group());
  for (int rank = 0; rank < world.size(); ++rank)
    EXPECT_TRUE(at::equal(turned[rank], at::full({2}, rank)));
}

RANK_TEST(TorchFunctional, RefusesWrongTensors) {
  const auto refused = [](const char* words, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "it was not refused: " << words;
    } catch (const hymn::torch::Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const hymn::torch::Group group = world.group();
  const tf::Splits ones = one_each(world);
  refused("without dimensions", [&] { (void)tf::all_gather_tensor(at::ones({}), 0, group); });
  refused("undefined", [&] { (void)tf::all_reduce({}, group); });
  refused("add up to",
          [&] { (void)tf::all_to_all_single(at::ones({world.size() + 1}), ones, ones, group); });
  refused("only one side",
          [&] { (void)tf::all_to_all_single(at::ones({world.size()}), ones, {}, group); });
  if (world.size() == 1) return;
  refused("equal parts",
          [&] { (void)tf::reduce_scatter_tensor(at::ones({world.size() + 1}), 0, group); });
}

// --- By DLPack.

Array array_of(const at::Tensor& tensor) {
  return from_dlpack(reinterpret_cast<dlpack::ManagedTensor*>(at::toDLPack(tensor)));
}

at::Tensor tensor_of(const Array& array) {
  return at::fromDLPack(reinterpret_cast<DLManagedTensor*>(to_dlpack(array)));
}

RANK_TEST(TorchDlpack, TensorsPassWithoutCopies) {
  for (const at::ScalarType type :
       {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16, at::kFloat,
        at::kDouble, at::kComplexFloat}) {
    const at::Tensor tensor = at::full({2, 3}, world.rank() + 1, type).t();
    const Array array = array_of(tensor);
    EXPECT_EQ(array.data(), tensor.data_ptr());
    EXPECT_EQ(array.shape(), (Shape{3, 2}));
    const Array sum = hymn::functional::all_reduce(array, "sum", world.group());
    const at::Tensor back = tensor_of(sum);
    EXPECT_EQ(back.data_ptr(), sum.data());
    const int expected = world.size() * (world.size() + 1) / 2;
    EXPECT_TRUE(at::equal(back, at::full({3, 2}, expected, type))) << c10::toString(type);
  }
}

}  // namespace
}  // namespace hymn::test
