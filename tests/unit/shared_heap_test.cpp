// hymn::allocate: memory of this process that others can map.
#include "p2p/shm/shared_heap.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "hymn/allocate.hpp"
#include "hymn/error.hpp"
#include "tests/unit/region_scene.hpp"

namespace hymn::test {
namespace {

using testing::HasSubstr;

constexpr std::size_t page = 4096;

SharedHeap& heap() { return SharedHeap::of_process(); }

HeapPlace place_of(const void* memory, std::size_t bytes) {
  const auto place = heap().find(memory, bytes);
  if (!place) throw std::runtime_error("no place");
  return *place;
}

std::string text_of(const HeapPlace& place) {
  return {reinterpret_cast<const char*>(&place), sizeof place};
}
HeapPlace place_from(const std::string& text) {
  HeapPlace place;
  std::memcpy(&place, text.data(), sizeof place);
  return place;
}

TEST(SharedHeap, GivesZeroedPages) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, page, page + 1, page * 1000}) {
    void* const memory = allocate(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % page, 0u);
    auto* const begin = static_cast<std::byte*>(memory);
    EXPECT_EQ(others_than(std::byte{0}, begin, bytes), 0u);
    std::fill_n(begin, bytes, std::byte{1});
    deallocate(memory);
  }
  EXPECT_EQ(std::to_integer<int>(*SharedBuffer(page).data()), 0) << "used again";
  deallocate(nullptr);
}

TEST(SharedHeap, RefusesWhatItHasNotGiven) {
  int other = 0;
  EXPECT_THROW(deallocate(&other), UsageError);
  void* const memory = allocate(2 * page);
  EXPECT_THROW(deallocate(static_cast<std::byte*>(memory) + page), UsageError);
  deallocate(memory);
  EXPECT_THROW(deallocate(memory), UsageError);
  EXPECT_THROW(static_cast<void>(allocate(SIZE_MAX)), ResourceError);
  EXPECT_THROW(static_cast<void>(Allocator<double>().allocate(SIZE_MAX / 4)),
               std::bad_array_new_length);
}

TEST(SharedHeap, FindsOnlyWhatLiesInOneAllocation) {
  const SharedBuffer buffer(10 * page);
  EXPECT_TRUE(heap().find(buffer.data(), 10 * page));
  EXPECT_TRUE(heap().find(buffer.data() + 17, 10 * page - 17));
  EXPECT_FALSE(heap().find(buffer.data() + 17, 10 * page - 16));
  EXPECT_FALSE(heap().find(buffer.data() - 1, 1));
  const std::vector<int> ordinary(100);
  EXPECT_FALSE(heap().find(ordinary.data(), 400));
  void* const freed = allocate(page);
  deallocate(freed);
  EXPECT_FALSE(heap().find(freed, page));
}

TEST(SharedHeap, ContainersTakeIt) {
  std::vector<float, Allocator<float>> numbers(100'000);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  numbers.resize(300'000, 1.0f);
  EXPECT_EQ(numbers[99'999], 99'999.0f);
  EXPECT_EQ(numbers[299'999], 1.0f);
  EXPECT_TRUE(heap().find(numbers.data(), numbers.size() * sizeof(float)));
  const auto copy = numbers;
  EXPECT_EQ(copy, numbers);
}

// Allocations must not overlap, and their pages must come back in any order.
TEST(SharedHeap, AnyOrder) {
  std::mt19937 random(7);
  struct Held {
    SharedBuffer buffer;
    std::byte mark;
  };
  std::vector<Held> held;
  for (int turn = 0; turn < 2000; ++turn) {
    if (held.empty() || random() % 3 != 0) {
      Held made{SharedBuffer(1 + random() % (20 * page)), static_cast<std::byte>(random())};
      ASSERT_EQ(others_than(std::byte{0}, made.buffer.data(), made.buffer.size()), 0u);
      std::fill_n(made.buffer.data(), made.buffer.size(), made.mark);
      held.push_back(std::move(made));
    } else {
      std::swap(held[random() % held.size()], held.back());
      const Held& old = held.back();
      ASSERT_EQ(others_than(old.mark, old.buffer.data(), old.buffer.size()), 0u);
      held.pop_back();
    }
    if (held.size() > 200) held.resize(50);
  }
}

// Or there would be none for a long one in the end.
TEST(SharedHeap, FreedNeighboursBecomeOneRun) {
  Child child([]() -> std::string {  // whose heap is empty
    void* const first = allocate(page);
    void* const second = allocate(page);
    const SharedBuffer behind(page);
    deallocate(second);
    deallocate(first);
    const SharedBuffer both(2 * page);
    return both.data() == first ? "" : "two pages beside each other are not given together";
  });
  EXPECT_EQ(child.report(), "");
}

TEST(SharedHeap, ThreadsShareIt) {
  std::vector<std::thread> threads;
  for (int i = 1; i <= 4; ++i)
    threads.emplace_back([i] {
      for (std::size_t turn = 1; turn < 100; ++turn) {
        const SharedBuffer buffer(turn * 100);
        std::fill_n(buffer.data(), buffer.size(), static_cast<std::byte>(i));
        EXPECT_EQ(others_than(static_cast<std::byte>(i), buffer.data(), buffer.size()), 0u);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(SharedHeap, OneProcessMapsAnothersMemory) {
  const Wire places;
  const Wire done;
  Child owner([&] {
    const SharedBuffer first(3 * page);
    const SharedBuffer second(page);
    first.data()[5] = std::byte{55};
    second.data()[6] = std::byte{66};
    places.send(text_of(place_of(first.data(), first.size())));
    places.send(text_of(place_of(second.data(), second.size())));
    done.receive();
    return fmt::format("sees {}", std::to_integer<int>(second.data()[7]));
  });
  const HeapPlace first = place_from(places.receive());
  const HeapPlace second = place_from(places.receive());
  const auto mapping = heap().map(first);
  EXPECT_EQ(heap().map(second), mapping) << "one segment, mapped once";
  EXPECT_EQ(mapping->base()[first.offset + 5], std::byte{55});
  EXPECT_EQ(mapping->base()[second.offset + 6], std::byte{66});
  mapping->base()[second.offset + 7] = std::byte{77};
  done.send("");
  EXPECT_EQ(owner.report(), "sees 77");
  // What is mapped may be looked at, but what was there is free.
  EXPECT_EQ(mapping->base()[first.offset + 5], std::byte{0});
  HeapPlace wrong = first;
  ++wrong.token;
  EXPECT_THROW(heap().map(wrong), ResourceError);
}

// Freed memory is free although a peer still maps it, and to look at it does no harm.
TEST(SharedHeap, FreedMemoryIsGone) {
  const Wire places;
  const Wire steps;
  Child owner([&]() -> std::string {
    void* const memory = allocate(100 * page);
    std::memset(memory, 1, 100 * page);
    places.send(text_of(place_of(memory, 100 * page)));
    steps.receive();
    deallocate(memory);
    places.send("freed");
    steps.receive();
    return "";
  });
  const HeapPlace place = place_from(places.receive());
  const auto mapping = heap().map(place);
  EXPECT_EQ(others_than(std::byte{1}, mapping->base() + place.offset, 100 * page), 0u);
  steps.send("");
  places.receive();
  EXPECT_EQ(others_than(std::byte{0}, mapping->base() + place.offset, 100 * page), 0u);
  steps.send("");
  EXPECT_EQ(owner.report(), "");
}

// What a child of fork() frees is its parent's.
TEST(SharedHeap, AChildFreesNothing) {
  auto buffer = std::make_unique<SharedBuffer>(page);
  buffer->data()[0] = std::byte{9};
  Child child([&] {
    if (heap().find(buffer->data(), page)) return "the child says it is its own";
    buffer.reset();
    const SharedBuffer own(page);
    return std::to_integer<int>(own.data()[0]) == 0 ? "" : "not zero";
  });
  EXPECT_EQ(child.report(), "");
  EXPECT_EQ(buffer->data()[0], std::byte{9});
}

TEST(SharedHeap, DetachedMemoryIsThisProcessAlone) {
  const Wire places;
  const Wire steps;
  Child owner([&]() -> std::string {
    const SharedBuffer buffer(10 * page);
    std::fill_n(buffer.data(), buffer.size(), std::byte{3});
    places.send(text_of(place_of(buffer.data(), buffer.size())));
    steps.receive();
    heap().detach(buffer.data() + 100, 2 * page);
    if (heap().find(buffer.data(), page)) return "still has a place";
    places.send("detached");
    steps.receive();
    if (others_than(std::byte{3}, buffer.data(), 3 * page) != 0) return "was written";
    return buffer.data()[5 * page] == std::byte{4} ? "" : "more than that was cut off";
  });
  const HeapPlace place = place_from(places.receive());
  const auto mapping = heap().map(place);
  steps.send("");
  places.receive();
  std::fill_n(mapping->base() + place.offset, 10 * page, std::byte{4});
  steps.send("");
  EXPECT_EQ(owner.report(), "");
  Child again([&]() -> std::string {
    for (int turn = 0; turn < 3; ++turn) {
      const SharedBuffer buffer(10 * page);
      buffer.data()[0] = std::byte{1};
      heap().detach(buffer.data(), 1);
    }
    const SharedBuffer buffer(10 * page);
    return others_than(std::byte{0}, buffer.data(), buffer.size()) == 0 ? "" : "not zero";
  });
  EXPECT_EQ(again.report(), "");
}

/// Of this process's address space.
std::size_t mapped_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t pages = 0;
  statm >> pages;
  return pages * RegionPlan::page_of_machine();
}

// Copies take memory for a short piece at a time, and what they stand for is given back.
TEST(SharedHeap, LargeMemoryIsDetachedInPieces) {
  if (address_sanitized) GTEST_SKIP() << "no limit on address space can be set";
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const Wire places;
  const Wire steps;
  Child owner([&]() -> std::string {
    const SharedBuffer buffer(bytes);
    for (std::size_t i = 0; i < bytes; ++i) buffer.data()[i] = static_cast<std::byte>(i % 251);
    places.send(text_of(place_of(buffer.data(), bytes)));
    steps.receive();
    const std::size_t wanted = bytes - 1000;
    std::byte* const memory = buffer.data() + 777;
    {
      const Limit none(RLIMIT_AS, page);
      if (heap().detach(memory, wanted) != 0) return "detached with no memory left";
    }
    if (heap().find(memory, wanted)) return "is offered to others still";
    {
      const Limit little(RLIMIT_AS, mapped_bytes() + bytes / 4);
      const std::size_t done = heap().detach(memory, wanted);
      if (done != wanted) return fmt::format("only {} bytes detached", done);
    }
    places.send("detached");
    steps.receive();
    for (std::size_t i = 0; i < bytes; ++i)
      if (buffer.data()[i] != static_cast<std::byte>(i % 251)) return fmt::format("wrong at {}", i);
    return "";
  });
  const HeapPlace place = place_from(places.receive());
  const auto mapping = heap().map(place);
  steps.send("");
  ASSERT_EQ(places.receive(), "detached");
  EXPECT_EQ(others_than(std::byte{0}, mapping->base() + place.offset, bytes), 0u);
  std::fill_n(mapping->base() + place.offset, bytes, std::byte{1});
  steps.send("");
  EXPECT_EQ(owner.report(), "");
}

TEST(SharedHeap, LimitsAreSaid) {
  const auto limited = [](decltype(RLIMIT_AS) what, rlim_t value, std::size_t bytes) {
    Child child([=]() -> std::string {
      const Limit low(what, value);
      const SharedBuffer buffer(bytes);
      return "allocated";
    });
    return child.report();
  };
  EXPECT_THAT(limited(RLIMIT_NOFILE, 3, page), HasSubstr("ulimit -n"));
  EXPECT_THAT(limited(RLIMIT_FSIZE, 1 << 20, 2 << 20), HasSubstr("ulimit -f"));
  EXPECT_EQ(limited(RLIMIT_FSIZE, 1 << 20, 1 << 19), "allocated") << "a smaller segment";
  EXPECT_THAT(limited(RLIMIT_NOFILE, 100, std::size_t{1} << 45), HasSubstr("are available"));
}

}  // namespace
}  // namespace hymn::test
