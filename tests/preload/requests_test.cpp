// The table of requests that are in flight, and handles that MPI gives away again.
#include "preload/requests.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <type_traits>

namespace hymn::preload {

struct WatchedGroup {
  int unused = 0;
};

namespace {

template <class Handle = MPI_Request>
Handle handle(std::uintptr_t number) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<Handle>(number);
  else
    return static_cast<Handle>(number);
}

/// Whether threads may overlap.
class RequestTable : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Threads, RequestTable, testing::Bool());

TEST_P(RequestTable, AreFoundUntilTheyEnd) {
  const auto table = std::make_unique<Requests>(GetParam());
  EXPECT_FALSE(table->find(handle(64)).has_value());
  EXPECT_TRUE(table->add({handle(64), 0}).is_followed);
  ASSERT_TRUE(table->find(handle(64)).has_value());
  EXPECT_EQ(table->find(handle(64))->record, 0u);
  EXPECT_TRUE(table->remove(handle(64), 0));
  EXPECT_FALSE(table->remove(handle(64), 0));
  EXPECT_FALSE(table->find(handle(64)).has_value());
}

TEST_P(RequestTable, AHandleThatComesAgainEndsWhatHadIt) {
  const auto table = std::make_unique<Requests>(GetParam());
  EXPECT_FALSE(table->add({handle(64), 7}).ended.has_value());
  const Requests::Added again = table->add({handle(64), 8});
  EXPECT_TRUE(again.is_followed);
  ASSERT_TRUE(again.ended.has_value());
  EXPECT_EQ(again.ended->record, 7u);
  // Whoever waited for the first does not end the second.
  EXPECT_FALSE(table->remove(handle(64), 7));
  EXPECT_EQ(table->find(handle(64))->record, 8u);
  EXPECT_TRUE(table->remove(handle(64), 8));
}

TEST_P(RequestTable, KeepTheirGroupUntilTheyEnd) {
  const auto table = std::make_unique<Requests>(GetParam());
  auto group = std::make_shared<WatchedGroup>();
  const std::weak_ptr<WatchedGroup> seen = group;
  table->add({handle(64), 1, std::move(group)});
  EXPECT_FALSE(seen.expired());
  EXPECT_EQ(table->find(handle(64))->group, seen.lock());
  table->remove(handle(64), 1);
  EXPECT_TRUE(seen.expired());
}

TEST_P(RequestTable, WhatFindsNoPlaceIsNotFollowed) {
  const auto table = std::make_unique<Requests>(GetParam());
  std::uintptr_t added = 0;
  while (added < 10000 && table->add({handle(64 * (added + 1)), added}).is_followed) ++added;
  EXPECT_GT(added, 256u);
  EXPECT_LT(added, 10000u);
  for (std::uintptr_t i = 0; i < added; ++i)
    EXPECT_TRUE(table->remove(handle(64 * (i + 1)), i)) << i;
}

}  // namespace
}  // namespace hymn::preload
