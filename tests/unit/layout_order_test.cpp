// In what order dimensions lie in memory, as a number.
#include "collectives/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/array_layout.hpp"

namespace hymn::test {
namespace {

std::int32_t anything = 0;

std::uint64_t order_in(const ArrayLayout& layout) {
  return order_of(layout.describe(ConstBufferView(&anything, layout.count(), DataType::int32)));
}

TEST(LayoutOrder, RowsHaveNone) {
  EXPECT_EQ(order_of(ConstBufferView(&anything, 1, DataType::int32)), 0u);
  EXPECT_EQ(order_in({{7}, {0}}), 0u);
  EXPECT_EQ(order_in({{2, 3, 4}, {0, 1, 2}}), 0u);
  EXPECT_EQ(order_in({{2, 1, 4}, {1, 0, 2}}), 0u) << "a single element lies anywhere";
  EXPECT_EQ(order_in({{2, 0, 4}, {2, 1, 0}}), 0u) << "so do none";
}

TEST(LayoutOrder, IsToldInWords) {
  EXPECT_EQ(tell_order(order_in({{2, 3, 4, 5}, {0, 2, 3, 1}})), "0, 2, 3, 1");
  EXPECT_EQ(tell_order(order_in({{2, 3, 4, 5}, {3, 2, 1, 0}})), "3, 2, 1, 0");
  EXPECT_EQ(tell_order(order_in({{1, 3, 4, 5}, {0, 2, 3, 1}})), "1, 2, 0");
}

// For one shape the numbers are the same where the elements lie alike, and some layout of each
// number can be made.
TEST(LayoutOrder, TellsLayoutsOfAShapeApart) {
  std::vector<std::size_t> order = {0, 1, 2, 3, 4};
  std::vector<std::uint64_t> seen;
  do {
    const ArrayLayout layout({2, 3, 2, 4, 2}, order);
    const std::uint64_t number = order_in(layout);
    seen.push_back(number);
    const SomeLayout some = layout_with(number, layout.count());
    if (number == 0) continue;
    ConstBufferView view(&anything, layout.count(), DataType::int32);
    view.shape = some.shape;
    view.strides = some.strides;
    EXPECT_EQ(order_of(view), number);
  } while (std::ranges::next_permutation(order).found);
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end());
  EXPECT_EQ(seen.size(), 120u);
}

TEST(LayoutOrder, WhatNobodyHasMakesNoLayout) {
  EXPECT_TRUE(layout_with(0x11, 1).shape.empty()) << "too few elements";
  EXPECT_TRUE(layout_with(0x11, 7).shape.empty()) << "a prime number of them";
  EXPECT_TRUE(layout_with(0x1, 64).shape.empty()) << "no permutation";
  EXPECT_TRUE(layout_with(~std::uint64_t{0}, 64).shape.empty());
  EXPECT_EQ(layout_with(0x11, 6).strides, (Sizes{1, 2}));
}

TEST(LayoutOrder, OfManyDimensions) {
  const Sizes twos(16, 2);
  std::vector<std::size_t> order(16);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = 15 - i;
  EXPECT_EQ(tell_order(order_in({twos, order})),
            "15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0");
  order.insert(order.begin(), 16);
  EXPECT_EQ(order_in({Sizes(17, 2), order}), 0u) << "more are not compared";
}

}  // namespace
}  // namespace hymn::test
