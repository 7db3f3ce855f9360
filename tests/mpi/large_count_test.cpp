// Counts above 2^31 for real: one byte for each element, between two ranks. (The other tests run
// the same code on small data, with HYMN_CHUNK_LIMIT.)
#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "tests/mpi/check.hpp"

namespace hymn::test {
namespace {

constexpr std::size_t count = (std::size_t{1} << 31) + 1;
constexpr std::size_t chunk = std::size_t{1} << 30;
// Both ranks hold the buffer, and MPI as much again while it reduces.
constexpr std::size_t needed_gib = 12;

/// What all ranks together may still take, in GiB; 0 when nobody can tell.
std::size_t available_gib() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::size_t kib = 0;
  std::string unit;
  while (file >> name >> kib >> unit)
    if (name == "MemAvailable:") return kib >> 20;
  return 0;
}

using Bytes = std::unique_ptr<std::int8_t[]>;

BufferView view(const Bytes& bytes, std::size_t offset = 0, std::size_t length = count) {
  return BufferView(bytes.get() + offset, length, DataType::int8);
}

/// A value for every place, other ones on the two ranks. The period fits no power of two, so that
/// parts that end up in the wrong place show.
constexpr std::size_t period = 251;
std::int8_t value_at(std::size_t place, int rank) {
  return static_cast<std::int8_t>(place % period + static_cast<std::size_t>(rank) * 90);
}

void fill(const Bytes& bytes, std::size_t offset, std::size_t length, int rank) {
  // Whole periods are copied: two billion single values take their time.
  std::vector<std::int8_t> tile(period * 1024);
  for (std::size_t i = 0; i < tile.size(); ++i) tile[i] = value_at(offset + i, rank);
  for (std::size_t done = 0; done < length; done += tile.size())
    std::memcpy(bytes.get() + offset + done, tile.data(), std::min(tile.size(), length - done));
}

/// Looks at places all over, and at every one around the seams of what goes into one MPI call.
template <class Expected>
void check_places(const Bytes& bytes, Expected&& expected) {
  for (std::size_t place = 0; place < count; place += 9973) CHECK(bytes[place] == expected(place));
  for (const std::size_t seam : {std::size_t{0}, chunk, 2 * chunk, count - 1}) {
    const std::size_t begin = seam < 70 ? 0 : seam - 70;
    for (std::size_t place = begin; place < seam + 70 && place < count; ++place)
      CHECK(bytes[place] == expected(place));
  }
}

// In modulo 256, as 8-bit sums are defined; that of the C int would be larger in most places.
void check_all_reduce(World& world, const Bytes& bytes) {
  fill(bytes, 0, count, world.rank());
  world.group().all_reduce(view(bytes));
  std::size_t wrapped = 0;
  check_places(bytes, [&wrapped](std::size_t place) {
    const int sum = value_at(place, 0) + value_at(place, 1);
    if (sum != static_cast<std::int8_t>(sum)) ++wrapped;
    return static_cast<std::int8_t>(sum);
  });
  CHECK(wrapped > 1000);
}

void check_broadcast(World& world, const Bytes& bytes) {
  fill(bytes, 0, count, world.rank());
  world.group().broadcast(view(bytes), 1);
  check_places(bytes, [](std::size_t place) { return value_at(place, 1); });
}

// Each rank's part can be counted, both together cannot.
void check_all_gather(World& world, const Bytes& bytes) {
  const std::size_t counts[] = {chunk + 1, chunk};
  const std::size_t own = world.rank() == 0 ? 0 : counts[0];
  fill(bytes, 0, count, 1 - world.rank());
  fill(bytes, own, counts[world.rank()], world.rank());
  world.group().all_gather(view(bytes, own, counts[world.rank()]), view(bytes), counts);
  check_places(bytes,
               [&](std::size_t place) { return value_at(place, place < counts[0] ? 0 : 1); });
}

void check_message(World& world, const Bytes& bytes) {
  fill(bytes, 0, count, world.rank());
  if (world.rank() == 0) {
    world.group().send(view(bytes), 1, 9);
    return;
  }
  const RecvStatus status = world.group().recv(view(bytes), 0, 9);
  CHECK(status.count == count);
  check_places(bytes, [](std::size_t place) { return value_at(place, 0); });
}

void run() {
  World world;
  std::uint64_t available = available_gib();
  world.group().broadcast(view_of(available), 0);
  if (available < needed_gib) {
    if (world.rank() == 0)
      std::printf("skipped: %d GiB of memory are needed, %d are available\n",
                  static_cast<int>(needed_gib), static_cast<int>(available));
    return;
  }
  const auto bytes = std::make_unique_for_overwrite<std::int8_t[]>(count);
  check_all_reduce(world, bytes);
  check_broadcast(world, bytes);
  check_all_gather(world, bytes);
  check_message(world, bytes);
}

}  // namespace
}  // namespace hymn::test

int main() {
  hymn::test::run();
  return 0;
}
