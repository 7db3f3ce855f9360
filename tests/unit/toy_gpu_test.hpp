// What tests on toy GPUs begin with.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "hymn/hymn.hpp"
#include "tests/unit/toy_gpus.hpp"

namespace hymn::test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Ints = std::vector<std::int32_t>;
using Buffer = ToyBuffer<std::int32_t>;

/// Sums of different dtypes as one work, each in place.
inline void all_reduce_together(ProcessGroup& group, std::span<const BufferView> views) {
  std::vector<Request> requests;
  for (const BufferView& view : views) requests.push_back(Request::all_reduce(view, view));
  group.start_coalesced(requests).wait();
}

/// On two GPUs; nothing may be done to them that is forbidden.
class ToyGpuTest : public testing::Test {
 protected:
  ~ToyGpuTest() override { EXPECT_THAT(gpus.violations(), IsEmpty()); }
  ToyGpus gpus{2};
};

}  // namespace hymn::test
