// Rings between two members: every length across every place in a ring, and what fills it.
#include "p2p/shm/message_ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "p2p/shm/heap_region.hpp"

namespace hymn::test {
namespace {

/// Both ends of the ring from member 0 to member 1.
struct Ends {
  explicit Ends(int members) {
    RegionPlan plan;
    const RingAreas areas = RingAreas::add_to(plan, members);
    const auto memory = std::make_shared<HeapMemory>(plan, members);
    for (int member = 0; member < 2; ++member) views.push_back(HeapMemory::view(memory, member));
    writer = RingWriter(RingMemory::of(*views[0], areas, 0, 1));
    reader = RingReader(RingMemory::of(*views[1], areas, 0, 1));
    sizes = RingSizes::for_members(members);
  }
  std::vector<std::unique_ptr<SharedRegion>> views;
  RingWriter writer;
  RingReader reader;
  RingSizes sizes;
};

/// True when there was something to set.
bool set(RingFlag flag) {
  if (flag) flag.word->store(flag.value, std::memory_order_release);
  return static_cast<bool>(flag);
}

std::byte value_of(std::size_t message, std::size_t index) {
  return static_cast<std::byte>(message * 31 + index * 7 + index / 251);
}

/// Bytes that differ from message to message, as far from a line as their number says.
struct PlacedBytes {
  PlacedBytes(std::size_t message, std::size_t length) : offset(message % 64), data(length + 64) {
    for (std::size_t i = 0; i < length; ++i) begin()[i] = value_of(message, i);
  }
  std::byte* begin() {
    auto* first = data.data();
    const auto over = reinterpret_cast<std::uintptr_t>(first) % 64;
    return first + (offset + 64 - over) % 64;
  }
  std::size_t offset;
  std::vector<std::byte> data;
};

/// The first byte that is not what was sent, or `length`.
std::size_t first_wrong(std::size_t message, const std::vector<std::byte>& got,
                        std::size_t length) {
  for (std::size_t i = 0; i < length; ++i)
    if (got[i] != value_of(message, i)) return i;
  return length;
}

TEST(MessageRing, ShortMessagesOfEveryLengthAtEveryPlace) {
  for (const int members : {2, 9, 128}) {
    Ends ends(members);
    const std::size_t longest = ends.sizes.longest_short();
    std::vector<std::byte> got(longest);
    std::size_t message = 0;
    for (int round = 0; round < 3; ++round)
      for (std::size_t length = 0; length <= longest; length += 1 + length / 64) {
        ++message;
        ASSERT_TRUE(ends.writer.is_short(length));
        PlacedBytes bytes(message, length);
        ASSERT_TRUE(set(ends.writer.put(message, bytes.begin(), length)));
        MessageHead head;
        ASSERT_TRUE(ends.reader.look(head));
        ASSERT_EQ(head.tag, message);
        ASSERT_EQ(head.bytes, length);
        ASSERT_FALSE(head.is_long());
        set(ends.reader.take(head, got.data(), length));
        ASSERT_EQ(first_wrong(message, got, length), length) << members << " members";
        ASSERT_FALSE(ends.reader.look(head));
      }
  }
}

TEST(MessageRing, DataIsNotTakenForAMessage) {
  Ends ends(2);
  // Every word of the data says that it holds a message.
  const std::vector<std::uint64_t> ones(ends.sizes.longest_short() / 8, 1);
  for (std::size_t i = 0; i < 100; ++i) {
    const std::size_t length = i % 2 == 0 ? ones.size() * 8 : 8;
    ASSERT_TRUE(set(ends.writer.put(i, ones.data(), length)));
    MessageHead head;
    ASSERT_TRUE(ends.reader.look(head));
    ASSERT_EQ(head.bytes, length);
    set(ends.reader.take(head, nullptr, 0));
    ASSERT_FALSE(ends.reader.look(head));
  }
}

TEST(MessageRing, AFullRingTakesNoMoreUntilItIsRead) {
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{48}, std::size_t{248}, std::size_t{249}, std::size_t{500}}) {
    Ends ends(9);
    std::size_t sent = 0;
    auto send = [&] {
      PlacedBytes bytes(sent, length);
      return set(ends.writer.put(sent, bytes.begin(), length));
    };
    while (send()) ++sent;
    EXPECT_GE(sent * (length + 16), ends.sizes.cells_bytes / 8);
    if (length == 0) {
      EXPECT_FALSE(set(ends.writer.announce(0, nullptr, 1 << 20)));
    }
    std::vector<std::byte> got(length);
    const std::size_t at_first = sent;
    for (std::size_t read = 0; read < sent; ++read) {
      MessageHead head;
      ASSERT_TRUE(ends.reader.look(head));
      ASSERT_EQ(head.tag, read);
      set(ends.reader.take(head, got.data(), length));
      ASSERT_EQ(first_wrong(read, got, length), length);
      if (sent < 3 * at_first && send()) ++sent;
    }
    EXPECT_GT(sent, 2 * at_first);
  }
}

void write_long(Ends& ends, std::size_t message, std::size_t length) {
  PlacedBytes bytes(message, length);
  while (!set(ends.writer.announce(message, bytes.begin(), length))) std::this_thread::yield();
  std::size_t done = 0;
  while (done < length) {
    const auto room = ends.writer.room();
    // Pieces of any length, down to a byte.
    const std::size_t now = std::min({room.size(), length - done, 1 + message * 997 % 5000});
    if (now == 0) {
      std::this_thread::yield();
      continue;
    }
    std::memcpy(room.data(), bytes.begin() + done, now);
    done += now;
    set(ends.writer.wrote(now));
  }
}

void read_any(Ends& ends, std::size_t message, std::size_t length) {
  MessageHead head;
  while (!ends.reader.look(head)) std::this_thread::yield();
  ASSERT_EQ(head.tag, message);
  ASSERT_EQ(head.bytes, length);
  std::vector<std::byte> got(length);
  if (!head.is_long()) {
    set(ends.reader.take(head, got.data(), length));
  } else {
    set(ends.reader.open(head));
    std::size_t done = 0;
    while (done < length) {
      const auto come = ends.reader.come(std::min(length - done, 1 + message * 577 % 9000));
      if (come.empty()) {
        std::this_thread::yield();
        continue;
      }
      std::memcpy(got.data() + done, come.data(), come.size());
      done += come.size();
      set(ends.reader.read(come.size()));
    }
  }
  ASSERT_EQ(first_wrong(message, got, length), length) << "message " << message;
}

TEST(MessageRing, ShortAndLongMessagesBetweenThreads) {
  for (const int members : {2, 128}) {
    Ends ends(members);
    constexpr std::size_t messages = 300;
    auto length_of = [&](std::size_t message) {
      return message % 3 == 0 ? message * 37 % ends.sizes.longest_short()
                              : message * 7919 % (3 * ends.sizes.near_pipe_bytes) + 1;
    };
    std::thread other([&] {
      for (std::size_t message = 0; message < messages; ++message) {
        // Half way the writer gets a larger pipe.
        if (message == messages / 2) ends.writer.use_far_pipe(ends.sizes.far_pipe_bytes);
        const std::size_t length = length_of(message);
        if (ends.writer.is_short(length)) {
          PlacedBytes bytes(message, length);
          while (!set(ends.writer.put(message, bytes.begin(), length))) std::this_thread::yield();
        } else {
          write_long(ends, message, length);
        }
      }
    });
    for (std::size_t message = 0; message < messages; ++message)
      read_any(ends, message, length_of(message));
    other.join();
  }
}

TEST(MessageRing, RingsOfAMemberTakeABoundedShareOfMemory) {
  for (const int members : {2, 3, 8, 9, 64, 128, 129}) {
    const RingSizes sizes = RingSizes::for_members(members);
    EXPECT_LE(sizes.near_bytes(members), std::size_t{1} << 20) << members;
    EXPECT_LE(sizes.far_bytes(members), std::size_t{4} << 20) << members;
    EXPECT_GE(sizes.cells_bytes + sizes.near_pipe_bytes, std::size_t{4} << 10) << members;
    EXPECT_GT(sizes.far_pipe_bytes, sizes.near_pipe_bytes) << members;
  }
}

}  // namespace
}  // namespace hymn::test
