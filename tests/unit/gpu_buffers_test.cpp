// Buffers whose memory the driver knows better than the caller said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "hymn/hymn.hpp"
#include "p2p/threads/thread_hub.hpp"
#include "runtime/world/world_state.hpp"
#include "tests/unit/fake_memory.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

/// A world of one rank in which pointers are asked for.
World world_with(MemoryQuery& memory) {
  detail::WorldParts parts({});
  parts.exchange = std::make_shared<ThreadExchange>(std::make_shared<ThreadHub>(1), 0);
  parts.memory = &memory;
  return World(detail::WorldState::make(std::move(parts)));
}

void pretend(FakeMemory& fake, const std::vector<float>& buffer, MemoryKind kind) {
  fake.allocate({.kind = kind,
                 .gpu = 3,
                 .begin = reinterpret_cast<std::uintptr_t>(buffer.data()),
                 .bytes = buffer.size() * sizeof(float)});
}

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const UnsupportedError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(GpuBuffers, AreFoundAndRefused) {
  FakeMemory fake;
  MemoryQuery query(fake.functions);
  World world = world_with(query);
  std::vector<float> host(8, 1.0f);
  std::vector<float> device(8, 1.0f);
  pretend(fake, device, MemoryKind::device);
  ProcessGroup group = world.group();
  const std::string text = refusal_of([&] { group.all_reduce(device); });
  EXPECT_THAT(text, HasSubstr("the input buffer is in the memory of GPU 3"));
  EXPECT_THAT(text, HasSubstr("rank 0, group 'default_pg', all_reduce"));
  EXPECT_THAT(text, HasSubstr("remedy: copy it to host memory"));
  EXPECT_THAT(refusal_of([&] { group.all_gather(host, device); }),
              HasSubstr("the output buffer is in the memory of GPU 3"));
  EXPECT_THAT(refusal_of([&] { (void)group.all_reduce_async(device); }), HasSubstr("GPU 3"));
  EXPECT_EQ(group.collective_sequence(), 0u) << "something was enqueued";
  group.all_reduce(host);
  EXPECT_EQ(host, std::vector<float>(8, 1.0f));
}

TEST(GpuBuffers, OfTheHostAreTaken) {
  FakeMemory fake;
  MemoryQuery query(fake.functions);
  World world = world_with(query);
  std::vector<float> pinned(8, 2.0f);
  std::vector<float> managed(8, 0.0f);
  pretend(fake, pinned, MemoryKind::pinned);
  pretend(fake, managed, MemoryKind::managed);
  world.group().all_reduce(pinned, managed);
  EXPECT_EQ(managed, pinned);
  world.group().broadcast(BufferView(), 0);
  EXPECT_EQ(fake.asked_all, 2) << "a buffer without elements was asked for";
}

}  // namespace
}  // namespace hymn::test
