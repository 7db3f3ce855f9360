// What pointers point to, told by a driver of the test.
#include "gpu/memory_query.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hymn/error.hpp"
#include "tests/unit/fake_memory.hpp"

namespace hymn::test {
namespace {

const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

constexpr MemoryAt on_gpu{.kind = MemoryKind::device, .gpu = 2, .begin = 0x10000, .bytes = 0x1000};
constexpr MemoryAt pinned{.kind = MemoryKind::pinned, .gpu = 0, .begin = 0x20000, .bytes = 0x100};
constexpr MemoryAt managed{.kind = MemoryKind::managed, .gpu = 1, .begin = 0x30000, .bytes = 0x10};

TEST(MemoryQuery, TellsTheKindsApart) {
  FakeMemory fake;
  for (const MemoryAt& memory : {on_gpu, pinned, managed}) fake.allocate(memory);
  MemoryQuery query(fake.functions);
  for (int i = 0; i < 2; ++i) {  // asked anew, and remembered
    EXPECT_EQ(query.at(at(0x10000)), on_gpu);
    EXPECT_EQ(query.at(at(0x10fff)), on_gpu);
    EXPECT_EQ(query.at(at(0x20080)), pinned);
    EXPECT_EQ(query.at(at(0x3000f)), managed);
    for (const std::uintptr_t plain : {0x0u, 0xffffu, 0x11000u, 0x20100u, 0x30010u})
      EXPECT_EQ(query.at(at(plain)), MemoryAt()) << plain;
  }
}

TEST(MemoryQuery, AsksForAllOnceAnAllocation) {
  FakeMemory fake;
  fake.allocate(on_gpu);
  MemoryQuery query(fake.functions);
  for (std::uintptr_t address = 0x10000; address < 0x10010; ++address) query.at(at(address));
  EXPECT_EQ(fake.asked_all, 1);
  EXPECT_EQ(fake.asked_id, 15);
}

TEST(MemoryQuery, NeverMistakesWhatHasBeenFreed) {
  FakeMemory fake;
  fake.allocate(on_gpu);
  MemoryQuery query(fake.functions);
  EXPECT_EQ(query.at(at(0x10800)).kind, MemoryKind::device);
  fake.free(on_gpu.begin);
  EXPECT_EQ(query.at(at(0x10800)), MemoryAt());
  // The same addresses, but another allocation.
  MemoryAt another = on_gpu;
  another.gpu = 5;
  fake.allocate(another);
  EXPECT_EQ(query.at(at(0x10800)), another);
  fake.free(on_gpu.begin);
  // Two that lie in what was one, and begin elsewhere.
  const MemoryAt low{.kind = MemoryKind::pinned, .gpu = 0, .begin = 0xf000, .bytes = 0x1800};
  const MemoryAt high{.kind = MemoryKind::managed, .gpu = 0, .begin = 0x10800, .bytes = 0x10000};
  fake.allocate(low);
  fake.allocate(high);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(query.at(at(0x10000)), low);
    EXPECT_EQ(query.at(at(0x10900)), high);
    EXPECT_EQ(query.at(at(0x107ff)), low);
  }
}

TEST(MemoryQuery, ForgetsRatherThanGrowsForEver) {
  FakeMemory fake;
  MemoryQuery query(fake.functions);
  for (std::uintptr_t i = 1; i <= 3000; ++i) {
    MemoryAt memory = on_gpu;
    memory.begin = i * 0x10000;
    fake.allocate(memory);
    EXPECT_EQ(query.at(at(memory.begin)), memory);
    fake.free(memory.begin);
  }
}

TEST(MemoryQuery, WithoutAContextThereIsPlainMemoryOnly) {
  FakeMemory fake;
  fake.allocate(on_gpu);
  MemoryQuery query(fake.functions);
  for (const cuda_api::Result nothing :
       {cuda_api::not_initialized, cuda_api::deinitialized, cuda_api::invalid_context}) {
    fake.failure = nothing;
    EXPECT_EQ(query.at(at(0x10000)), MemoryAt()) << nothing;
  }
  fake.failure = cuda_api::illegal_address;
  try {
    query.at(at(0x10000));
    FAIL() << "nothing was thrown";
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), cuda_api::illegal_address);
    EXPECT_THAT(error.what(), testing::HasSubstr("cuPointerGetAttributes failed with"));
  }
  fake.failure = cuda_api::success;
  EXPECT_EQ(query.at(at(0x10000)), on_gpu) << "a failure was remembered";
}

}  // namespace
}  // namespace hymn::test
