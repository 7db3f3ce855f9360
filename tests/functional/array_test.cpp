// Arrays by themselves: views, copies, access, DLPack.
#include "hymn/dlpack.hpp"
#include "tests/functional/arrays.hpp"

namespace hymn::test {
namespace {

TEST(Array, ViewsShareTheMemory) {
  const Array array = counting({2, 3, 4});
  EXPECT_EQ(array.at<float>(1, 2, 3), 23);
  EXPECT_EQ(array.transpose(0, 2).at<float>(3, 2, 1), 23);
  EXPECT_EQ(array.permute({1, 2, 0}).at<float>(2, 3, 1), 23);
  EXPECT_EQ(array.narrow(-1, 2, 2).at<float>(1, 2, 1), 23);
  EXPECT_EQ(array.select(1, 2).shape(), (Shape{2, 4}));
  EXPECT_EQ(array.select(1, 2).at<float>(1, 3), 23);
  EXPECT_EQ(array.unflatten(2, 2).at<float>(1, 2, 1, 1), 23);
  EXPECT_EQ(array.view({-1, 4}).at<float>(5, 3), 23);
  array.select(0, 1).select(0, 2).span<float, 1>()(3) = 100;
  EXPECT_EQ(array.at<float>(1, 2, 3), 100);
}

TEST(Array, CopiesLieInRows) {
  const Array turned = counting({2, 3}).transpose(0, 1);
  EXPECT_FALSE(turned.is_contiguous());
  EXPECT_EQ(elements_of<float>(turned), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(turned.reshape({6}).at<float>(1), 3);
  EXPECT_EQ(counting({3, 4}).narrow(1, 1, 2).clone().strides(), (Shape{2, 1}));
  EXPECT_EQ(Array::zeros({0, 3}, DataType::int64).transpose(0, 1).clone().count(), 0);
  EXPECT_EQ(Array::full<double>({}, 7).at<double>(), 7);  // one number without dimensions
}

TEST(Array, BorrowsMemory) {
  std::vector<std::int32_t> numbers{1, 2, 3, 4, 5, 6};
  const Array flat = Array::borrow(numbers);
  EXPECT_EQ(flat.shape(), (Shape{6}));
  const Array rows = Array::borrow(numbers, {2, 3});
  EXPECT_EQ(rows.at<std::int32_t>(1, 0), 4);
  rows.span<std::int32_t, 2>()(1, 0) = 40;
  EXPECT_EQ(numbers[3], 40);
  auto owner = std::make_shared<int>();
  {
    const Array owned = Array::borrow(numbers, {6}, owner);
    EXPECT_EQ(owner.use_count(), 2);
  }
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(Array, RefusesWhatItCannotDo) {
  const Array array = counting({2, 3});
  const auto refused = [](const std::function<void()>& call, Words words) {
    expect_error(ErrorKind::usage, call, words);
  };
  refused([&] { (void)array.values<double>(); }, {"float32", "float64"});
  refused([&] { (void)array.transpose(0, 1).values<float>(); }, {"contiguous()"});
  refused([&] { (void)array.transpose(0, 1).view({6}); }, {"reshape()"});
  refused([&] { (void)array.view({4}); }, {"[4]", "[2, 3]"});
  refused([&] { (void)array.at<float>(2, 0); }, {"[2, 0]"});
  refused([&] { (void)array.at<float>(0); }, {"1 indices"});
  refused([&] { (void)array.size(2); }, {"no dimension 2"});
  refused([&] { (void)array.narrow(1, 2, 2); }, {"2 indices from 2"});
  refused([&] { (void)array.permute({0, 0}); }, {"twice"});
  refused([&] { (void)Array().data(); }, {"empty"});
  refused([&] { (void)Array::meta({2}, DataType::int8).data(); }, {"meta"});
  refused([&] { (void)Array::empty({-2}, DataType::int8); }, {"negative"});
  refused([&] { (void)Array::empty({2}, DataType::value); }, {"value"});
  refused([&] { (void)Array::from<int>({1, 2, 3}, {2}); }, {"3 elements"});
}

// --- DLPack: as dlpack.h has it on machines with pointers of 8 bytes.

static_assert(sizeof(dlpack::Tensor) == 48 && offsetof(dlpack::Tensor, byte_offset) == 40);
static_assert(offsetof(dlpack::Tensor, dimensions) == 16 && offsetof(dlpack::Tensor, dtype) == 20);
static_assert(offsetof(dlpack::ManagedTensor, deleter) == 56);
static_assert(offsetof(dlpack::VersionedTensor, tensor) == 32);

TEST(Dlpack, GoesOutAndIn) {
  const Array array = counting({2, 3}).transpose(0, 1);
  dlpack::ManagedTensor* tensor = to_dlpack(array);
  EXPECT_EQ(tensor->tensor.data, array.data());
  const Array back = from_dlpack(tensor);
  EXPECT_EQ(back.data(), array.data());
  EXPECT_EQ(back.shape(), array.shape());
  EXPECT_EQ(back.strides(), array.strides());
  EXPECT_EQ(back.dtype(), DataType::float32);
}

TEST(Dlpack, KeepsTheMemoryUntilItIsDeleted) {
  auto owner = std::make_shared<int>();
  std::vector<float> numbers(6);
  dlpack::VersionedTensor* tensor = to_dlpack_versioned(Array::borrow(numbers, {2, 3}, owner));
  EXPECT_EQ(owner.use_count(), 2);
  tensor->deleter(tensor);
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(Dlpack, ReadOnlyMemoryIsNotWrittenTo) {
  dlpack::VersionedTensor* tensor = to_dlpack_versioned(counting({3}));
  tensor->flags = dlpack::read_only;
  const Array array = from_dlpack(tensor);
  EXPECT_EQ(array.at<float>(2), 2);
  expect_error(ErrorKind::usage, [&] { (void)array.mutable_data(); }, {"clone()"});
}

TEST(Dlpack, RefusesWhatHymnDoesNotHave) {
  dlpack::ManagedTensor* tensor = to_dlpack(counting({3}));
  const dlpack::ManagedTensor as_it_was = *tensor;
  tensor->tensor.dtype.lanes = 4;
  expect_error(ErrorKind::unsupported, [&] { (void)from_dlpack(tensor); }, {"4 lanes"});
  tensor->tensor.dtype = as_it_was.tensor.dtype;
  tensor->tensor.device.type = 7;
  expect_error(ErrorKind::unsupported, [&] { (void)from_dlpack(tensor); }, {"device type 7"});
  tensor->deleter(tensor);
}

}  // namespace
}  // namespace hymn::test
