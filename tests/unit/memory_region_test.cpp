// Regions between processes: made, joined, seen by all, and gone with the last of them.
#include "p2p/shm/memory_region.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>

#include "hymn/error.hpp"
#include "tests/unit/region_scene.hpp"

namespace hymn::test {
namespace {

using testing::HasSubstr;

/// Writes its own part, waits for the other's flag in the common page, and reads the other's part.
std::string exchange_parts(SharedRegion& region, const std::vector<int>& areas) {
  const int me = region.me();
  for (const int index : areas) {
    const std::size_t bytes = region.plan().area(index).bytes;
    if (others_than(std::byte{0}, region.area(me, index), bytes) != 0)
      return fmt::format("area {} of member {} is not zero at first", index, me);
    if (region.plan().is_on_demand(index)) {
      const auto reserved = region.reserve(index);
      if (reserved.bytes != bytes || !reserved.shortage.empty())
        return fmt::format("area {}: {} bytes reserved: {}", index, reserved.bytes,
                           reserved.shortage);
    }
    std::fill_n(region.area(me, index), bytes, static_cast<std::byte>(10 * index + me + 1));
  }
  auto* written = reinterpret_cast<std::atomic<int>*>(region.common());
  written->fetch_add(1);
  while (written->load() < region.members()) usleep(100);
  for (int member = 0; member < region.members(); ++member)
    for (const int index : areas)
      if (others_than(static_cast<std::byte>(10 * index + member + 1), region.area(member, index),
                      region.plan().area(index).bytes) != 0)
        return fmt::format("member {} sees other bytes in area {} of member {}", me, index, member);
  return "";
}

TEST(MemoryRegion, EveryMemberSeesAllParts) {
  const RegionPlan plan = small_plan();
  for (const int members : {1, 2, 3, 7}) {
    const auto maker = RegionMaker::make(plan, members);
    const Bytes ticket = maker->ticket();
    std::vector<std::unique_ptr<Child>> children;
    for (int me = 0; me < members; ++me)
      children.push_back(std::make_unique<Child>(
          [&, me] { return exchange_parts(*join(ticket, plan, members, me), {0, 1, 2}); }));
    for (const auto& child : children) EXPECT_EQ(child->report(), "") << members << " members";
  }
}

TEST(MemoryRegion, ManyAreasLieApart) {
  RegionPlan plan;
  std::vector<int> all;
  for (int i = 0; i < 12; ++i)
    all.push_back(plan.add(static_cast<std::size_t>(37 * i + 1), at_once));
  for (int i = 0; i < 13; ++i)
    all.push_back(plan.add(static_cast<std::size_t>(5003 * i + 1), on_demand));
  const auto maker = RegionMaker::make(plan, 2);
  Child other([&] { return exchange_parts(*join(maker->ticket(), plan, 2, 1), all); });
  EXPECT_EQ(exchange_parts(*join(maker->ticket(), plan, 2, 0), all), "");
  EXPECT_EQ(other.report(), "");
}

// Kernels with large pages reserve nothing that begins between two of them.
TEST(MemoryRegion, LargePagesAreKeptWhole) {
  constexpr std::size_t large = std::size_t{64} << 10;
  RegionPlan plan(large);
  for (const std::size_t bytes : {1000u, 70'000u}) plan.add(bytes, at_once);
  for (const std::size_t bytes : {1u, 70'000u}) plan.add(bytes, on_demand);
  for (const std::size_t bytes : {plan.parts_begin(), plan.at_once_bytes(), plan.part_bytes(),
                                  plan.area(2).offset, plan.area(3).offset})
    EXPECT_EQ(bytes % large, 0u);
  const auto maker = RegionMaker::make(plan, 2);
  Child other([&] { return exchange_parts(*join(maker->ticket(), plan, 2, 1), {0, 1, 2, 3}); });
  EXPECT_EQ(exchange_parts(*join(maker->ticket(), plan, 2, 0), {0, 1, 2, 3}), "");
  EXPECT_EQ(other.report(), "");
  // Machines of other pages do not share memory, but nobody should have to rely on that.
  RegionPlan small(2 * large);
  EXPECT_THROW(join(maker->ticket(), small, 2, 1), ResourceError);
}

TEST(MemoryRegion, TheMemoryOutlivesItsMaker) {
  const RegionPlan plan = small_plan();
  auto maker = RegionMaker::make(plan, 1);
  const auto region = join(maker->ticket(), plan, 1, 0);
  maker.reset();
  EXPECT_EQ(exchange_parts(*region, {0, 1, 2}), "");
}

// What is not reserved takes no memory: the plan may be generous.
TEST(MemoryRegion, OnlyWhatIsReservedIsReal) {
  const std::size_t page = RegionPlan::page_of_machine();
  RegionPlan plan;
  plan.add(10 * page, at_once);
  const int later = plan.add(20 * page, on_demand);
  const int never = plan.add(std::size_t{1} << 30, on_demand);
  const auto maker = RegionMaker::make(plan, 2);
  const auto region = join(maker->ticket(), plan, 2, 1);
  const auto real_pages = [&](const std::byte* begin, std::size_t bytes) {
    std::vector<unsigned char> state(bytes / page);
    EXPECT_EQ(mincore(const_cast<std::byte*>(begin), bytes, state.data()), 0);
    return std::count_if(state.begin(), state.end(), [](auto s) { return (s & 1) != 0; });
  };
  EXPECT_EQ(real_pages(region->common(), page), 1);
  EXPECT_EQ(real_pages(region->area(1, 0), plan.area(0).bytes), 10);
  EXPECT_EQ(real_pages(region->area(1, later), plan.area(later).bytes), 0);
  EXPECT_EQ(real_pages(region->area(0, 0), plan.area(0).bytes), 0);
  const auto reserved = region->reserve(later);
  EXPECT_EQ(reserved.bytes, plan.area(later).bytes);
  EXPECT_EQ(real_pages(region->area(1, later), plan.area(later).bytes), 20);
  EXPECT_EQ(region->reserve(later).bytes, plan.area(later).bytes) << "asked again";
  EXPECT_EQ(real_pages(region->area(1, never), plan.area(never).bytes), 0);
}

TEST(MemoryRegion, NobodyCanChangeItsSize) {
  const Descriptor memory = make_nameless_memory(8192, "test");
  EXPECT_NE(ftruncate(memory.number(), 4096), 0);
  EXPECT_NE(ftruncate(memory.number(), 16384), 0);
  EXPECT_NE(fcntl(memory.number(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(MemoryRegion, ChildrenOfAMemberDoNotKeepIt) {
  const RegionPlan plan = small_plan();
  auto maker = RegionMaker::make(plan, 1);
  const auto region = join(maker->ticket(), plan, 1, 0);
  Child child(
      [&]() -> std::string { return std::to_string(std::to_integer<int>(*region->area(0, 0))); });
  EXPECT_NE(child.report(), "0") << "the child should have died of looking";
}

/// Another number than the ticket's in the field at this place.
Bytes altered(Bytes ticket, std::size_t field) {
  ticket[field * sizeof(std::uint64_t)] ^= std::byte{1};
  return ticket;
}

TEST(MemoryRegion, AWrongTicketIsRefused) {
  const RegionPlan plan = small_plan();
  const auto maker = RegionMaker::make(plan, 2);
  const Bytes good = maker->ticket();
  const auto refusal = [&](const Bytes& ticket, const RegionPlan& mine,
                           int members) -> std::string {
    try {
      join(ticket, mine, members, 1);
    } catch (const ResourceError& error) {
      return error.what();
    }
    return "joined";
  };
  EXPECT_EQ(refusal(good, plan, 2), "joined");
  EXPECT_THAT(refusal(altered(good, 1), plan, 2), HasSubstr("process")) << "descriptor";
  EXPECT_THAT(refusal(altered(good, 2), plan, 2), HasSubstr("is not the shared memory"))
      << "device";
  EXPECT_THAT(refusal(altered(good, 3), plan, 2), HasSubstr("is not the shared memory")) << "inode";
  EXPECT_THAT(refusal(altered(good, 4), plan, 2), HasSubstr("laid out differently")) << "size";
  EXPECT_THAT(refusal(good, plan, 3), HasSubstr("laid out differently")) << "members";
  RegionPlan other = small_plan();
  other.add(1, on_demand);
  EXPECT_THAT(refusal(good, other, 2), HasSubstr("laid out differently")) << "plan";
  RegionPlan turned;
  turned.add(5000, at_once);
  turned.add(1000, at_once);
  turned.add(100'000, on_demand);
  EXPECT_THAT(refusal(good, turned, 2), HasSubstr("laid out differently")) << "order of areas";
  EXPECT_THROW(join(Bytes(good.begin(), good.begin() + 20), plan, 2, 1), NetworkError) << "cut";
}

// The number of the descriptor may stand for something else by now.
TEST(MemoryRegion, AnotherMemoryUnderTheSameNumberIsRefused) {
  const RegionPlan plan = small_plan();
  auto maker = RegionMaker::make(plan, 2);
  const Bytes old = maker->ticket();
  maker.reset();
  maker = RegionMaker::make(plan, 2);
  ASSERT_EQ(Unpacker(old).number(), Unpacker(maker->ticket()).number());
  EXPECT_THROW(join(old, plan, 2, 1), ResourceError);
  EXPECT_NO_THROW(join(maker->ticket(), plan, 2, 1));
}

TEST(MemoryRegion, WithoutFixedSizeItIsRefused) {
  const Descriptor memory(memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory.number(), 4096), 0);
  EXPECT_THROW(check_fixed_size(memory, key_of(memory)), ResourceError);
}

TEST(MemoryRegion, AMakerThatHasEndedIsNamed) {
  const RegionPlan plan = small_plan();
  const Wire wire;
  Child maker([&] {
    const auto made = RegionMaker::make(plan, 2);
    wire.send(as_text(made->ticket()));
    pause();
    return "";
  });
  const Bytes ticket = as_bytes(wire.receive());
  EXPECT_NO_THROW(join(ticket, plan, 2, 1));
  maker.kill();
  try {
    join(ticket, plan, 2, 1);
    FAIL() << "joined";
  } catch (const ResourceError& error) {
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("process {}", maker.pid())));
  }
}

TEST(MemoryRegion, KilledProcessesLeaveNothing) {
  const RegionPlan plan = small_plan();
  const Wire tickets;
  const Wire ready;
  std::vector<std::unique_ptr<Child>> children;
  children.push_back(std::make_unique<Child>([&] {
    const auto made = RegionMaker::make(plan, 3);
    for (int i = 0; i < 3; ++i) tickets.send(as_text(made->ticket()));
    const auto region = join(made->ticket(), plan, 3, 0);
    ready.send("0");
    pause();
    return "";
  }));
  for (const int me : {1, 2})
    children.push_back(std::make_unique<Child>([&, me] {
      const auto region = join(as_bytes(tickets.receive()), plan, 3, me);
      region->reserve(2);
      ready.send("0");
      pause();
      return "";
    }));
  for (int i = 0; i < 3; ++i) ready.receive();
  const Bytes ticket = as_bytes(tickets.receive());
  Unpacker unpacker(ticket);
  const std::string name = MemoryKey::unpack(unpacker).link.substr(0, 40);
  ASSERT_EQ(name.substr(0, 19), "/memfd:hymn-region-");
  EXPECT_EQ(holders_of(name).size(), 3u);
  for (const auto& child : children) child->kill();
  EXPECT_THAT(holders_of(name), testing::IsEmpty());
}

}  // namespace
}  // namespace hymn::test
