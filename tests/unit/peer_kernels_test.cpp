// What the kernels that work with peers compute: the same source as on GPUs, with blocks that are
// threads, held against collectives/reduce bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <random>

#include "collectives/cuda/peer_rules.hpp"
#include "collectives/reduce/find_nan.hpp"
#include "collectives/reduce/reducer.hpp"
#include "tests/unit/peer_scene.hpp"

namespace hymn::test {
namespace {

constexpr std::size_t slot_bytes = 64 * 1024;
constexpr std::size_t small_slot_bytes = 8 * 1024;

using Random = std::mt19937_64;
using Bytes = std::vector<std::byte>;

/// Small numbers with fractions, and now and then any bits at all: infinities, NaNs, subnormals.
template <class T>
T draw(Random& random) {
  const std::uint64_t bits = random();
  if (random() % 16 != 0) {
    const auto number = static_cast<float>(static_cast<int>(bits % 4096) - 2048) / 64;
    if constexpr (!std::is_integral_v<T>) return T(number);
  }
  if constexpr (sizeof(T) == 2)
    return std::bit_cast<T>(static_cast<std::uint16_t>(bits));
  else if constexpr (sizeof(T) == 4)
    return std::bit_cast<T>(static_cast<std::uint32_t>(bits));
  else
    return std::bit_cast<T>(bits);
}

void fill(std::byte* to, std::size_t count, DataType dtype, Random& random) {
  const auto fill_as = [&]<class T>(T) {
    for (std::size_t i = 0; i < count; ++i) {
      const T value = draw<T>(random);
      std::memcpy(to + i * sizeof(T), &value, sizeof(T));
    }
  };
  if (dtype == DataType::float32) fill_as(float());
  if (dtype == DataType::float16) fill_as(float16());
  if (dtype == DataType::bfloat16) fill_as(bfloat16());
  if (dtype == DataType::float64) fill_as(double());
  if (dtype == DataType::int32) fill_as(std::int32_t());
  if (dtype == DataType::int64) fill_as(std::int64_t());
}

bool is_nan(const std::byte* element, DataType dtype) { return find_nan(element, 1, dtype) == 0; }

/// What differs first; empty: nothing. Where arithmetic makes a NaN its payload is anything.
std::string difference(const std::byte* got, const std::byte* wanted, std::size_t count,
                       DataType dtype, bool is_order) {
  const std::size_t bytes = size_of(dtype);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const a = got + i * bytes;
    const std::byte* const b = wanted + i * bytes;
    if (std::memcmp(a, b, bytes) == 0) continue;
    if (!is_order && is_nan(a, dtype) && is_nan(b, dtype)) continue;
    std::uint64_t x = 0;
    std::uint64_t y = 0;
    std::memcpy(&x, a, bytes);
    std::memcpy(&y, b, bytes);
    return fmt::format("element {} of {} is {:#x}, not {:#x}", i, count, x, y);
  }
  return "";
}

/// One reduction among all ranks of a scene.
struct Reduction {
  std::string method;
  DataType dtype;
  ReduceKind kind;
  std::size_t count;  ///< of the result
  unsigned blocks = 1;
  bool in_place = false;
  std::size_t shift = 0;  ///< of all buffers, from an address that is a multiple of 16

  std::string kernel() const {
    return fmt::format("hymn_{}_{}_{}", method, to_string(dtype), to_string(kind));
  }
  bool scatters() const { return method == "reduce_scatter"; }
  /// The only rank that gets the result of a reduce.
  unsigned root(unsigned ranks) const { return static_cast<unsigned>(count) % ranks; }
  bool is_for(unsigned rank, unsigned ranks) const {
    return method != "reduce" || rank == root(ranks);
  }
};

/// The buffers of a reduction, and what must come out.
class ReductionBuffers {
 public:
  ReductionBuffers(const Reduction& what, unsigned ranks, Random& random)
      : what_(what), ranks_(ranks), bytes_(what.count * size_of(what.dtype)) {
    const std::size_t blocks = what.scatters() ? ranks : 1;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      inputs_.push_back(Bytes(bytes_ * blocks + 32));
      outputs_.push_back(Bytes(bytes_ + 32, std::byte{0x5a}));
      fill(at(inputs_.back()), what.count * blocks, what.dtype, random);
    }
    given_ = inputs_;
  }

  PeerLaunch launch(unsigned rank) {
    PeerLaunch launch{what_.kernel(), what_.blocks, {}};
    launch.call.input = at(inputs_[rank]);
    launch.call.output = what_.in_place ? at(inputs_[rank]) : at(outputs_[rank]);
    launch.call.bytes = launch.call.stride = bytes_;
    launch.call.root = what_.root(ranks_);
    return launch;
  }

  std::string wrong() {
    const Reducer reducer = reducer_for(what_.dtype, ReduceOp::of(what_.kind));
    for (unsigned rank = 0; rank < ranks_; ++rank) {
      if (!what_.is_for(rank, ranks_)) {
        if (!is_untouched(rank))
          return fmt::format("{}, rank {} has a result", what_.kernel(), rank);
        continue;
      }
      std::vector<const void*> inputs;
      for (Bytes& given : given_)
        inputs.push_back(at(given) + (what_.scatters() ? rank * bytes_ : 0));
      Bytes wanted(bytes_);
      reduce_all(reducer, inputs.data(), static_cast<int>(ranks_), wanted.data(), what_.count,
                 nullptr);
      Bytes& output = what_.in_place ? inputs_[rank] : outputs_[rank];
      const bool is_order = what_.kind == ReduceKind::min || what_.kind == ReduceKind::max;
      std::string wrong = difference(at(output), wanted.data(), what_.count, what_.dtype, is_order);
      if (wrong.empty() && !what_.in_place && !is_untouched_around(output))
        wrong = "something was written beside the output";
      if (!wrong.empty()) return fmt::format("{}, rank {}: {}", what_.kernel(), rank, wrong);
    }
    return "";
  }

 private:
  std::byte* at(Bytes& buffer) const {
    const std::size_t past = reinterpret_cast<std::uintptr_t>(buffer.data()) % 16;
    return buffer.data() + (16 - past) % 16 + what_.shift;
  }
  static bool is_fresh(const std::byte* from, const std::byte* to) {
    return std::all_of(from, to, [](std::byte b) { return b == std::byte{0x5a}; });
  }
  bool is_untouched_around(Bytes& output) const {
    return is_fresh(output.data(), at(output)) &&
           is_fresh(at(output) + bytes_, output.data() + output.size());
  }
  bool is_untouched(unsigned rank) const {
    const Bytes& output = outputs_[rank];
    return inputs_[rank] == given_[rank] && is_fresh(output.data(), output.data() + output.size());
  }

  const Reduction what_;
  const unsigned ranks_;
  const std::size_t bytes_;
  std::vector<Bytes> inputs_;
  std::vector<Bytes> given_;  ///< in their first state
  std::vector<Bytes> outputs_;
};

/// Runs them one after the other, without any rank waiting for others in between.
std::string wrong_of(PeerScene& scene, const std::vector<Reduction>& reductions) {
  Random random(17);
  std::vector<ReductionBuffers> buffers;
  std::vector<std::vector<PeerLaunch>> launches(scene.ranks());
  buffers.reserve(reductions.size());
  for (const Reduction& reduction : reductions) {
    buffers.emplace_back(reduction, scene.ranks(), random);
    for (unsigned rank = 0; rank < scene.ranks(); ++rank)
      launches[rank].push_back(buffers.back().launch(rank));
  }
  scene.run(launches);
  for (unsigned rank = 0; rank < scene.ranks(); ++rank)
    if (scene.status(rank) != 0) return fmt::format("rank {} has failed", rank);
  for (ReductionBuffers& each : buffers)
    if (std::string wrong = each.wrong(); !wrong.empty()) return wrong;
  return "";
}

const std::vector<std::string> methods = {"all_reduce_one_shot", "all_reduce_two_shot", "reduce",
                                          "reduce_scatter"};

TEST(PeerCells, HaveAKernelForEveryMethodAndNothingElseHasOne) {
  for (const std::string& method : methods)
    for (const DataType dtype : all_data_types)
      for (const ReduceKind kind : all_reduce_kinds) {
        const std::string kernel = Reduction{method, dtype, kind, 1}.kernel();
        EXPECT_EQ(find_host_peer_kernel(kernel) != nullptr, has_peer_cell(dtype, kind)) << kernel;
      }
}

class PeerKernels : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PeerKernels, testing::ValuesIn(peer_ranks));

TEST_P(PeerKernels, ReduceAsTheHostDoes) {
  std::vector<Reduction> reductions;
  for (const std::string& method : methods)
    for (const PeerCell& cell : peer_cells)
      reductions.push_back({method, cell.dtype, cell.kind, 777, 2});
  PeerScene scene(GetParam(), slot_bytes);
  EXPECT_EQ(wrong_of(scene, reductions), "");
}

TEST_P(PeerKernels, ReduceAnyNumberOfElementsAnywhere) {
  std::vector<Reduction> reductions;
  for (const std::string& method : methods)
    for (const std::size_t count : {0, 1, 3, 4, 5, 8, 9, 31, 257})
      for (const std::size_t shift : {0, 1, 2, 4, 8}) {
        reductions.push_back({method, DataType::float16, ReduceKind::sum, count, 2, false, shift});
        reductions.push_back({method, DataType::float32, ReduceKind::avg, count, 1,
                              method != "reduce_scatter", shift});
      }
  PeerScene scene(GetParam(), slot_bytes);
  EXPECT_EQ(wrong_of(scene, reductions), "");
}

// Kernels of all shapes in any order, and ranks that run ahead of each other: slots are written
// again as soon as may be, by other blocks than those that have read them. The numbers of kernels
// wrap on the way.
TEST_P(PeerKernels, UseTheSlotsAgain) {
  Random random(3);
  std::vector<Reduction> reductions;
  std::uint32_t pieces = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string& method = methods[random() % methods.size()];
    const bool is_any_size = method == "all_reduce_two_shot";
    const PeerCell& cell = peer_cells[random() % std::size(peer_cells)];
    const std::size_t most =
        is_any_size ? 4 * small_slot_bytes : small_slot_bytes / GetParam() - 16;
    const std::size_t count = random() % (most / size_of(cell.dtype));
    const auto blocks = static_cast<unsigned>(1 + random() % 4);
    reductions.push_back({method, cell.dtype, cell.kind, count, blocks});
    const std::size_t bytes = count * size_of(cell.dtype);
    pieces += is_any_size && bytes > small_slot_bytes
                  ? static_cast<std::uint32_t>((bytes + small_slot_bytes - 1) / small_slot_bytes)
                  : 1;
  }
  PeerScene scene(GetParam(), small_slot_bytes);
  for (unsigned rank = 0; rank < scene.ranks(); ++rank) {
    // As if so many kernels had run.
    cuda::StagingHead& head = scene.head(rank);
    head.kernels = 0xffffffe0u;
    for (auto& phase : head.reached)
      for (auto& block : phase) std::fill(std::begin(block), std::end(block), head.kernels);
  }
  EXPECT_EQ(wrong_of(scene, reductions), "");
  EXPECT_EQ(scene.head(0).kernels, 0xffffffe0u + pieces);
}

TEST_P(PeerKernels, TwoShotTakesMoreThanASlot) {
  std::vector<Reduction> reductions;
  for (const std::size_t bytes :
       {small_slot_bytes + 2, 2 * small_slot_bytes, 5 * small_slot_bytes - 1000})
    for (const std::size_t shift : {0, 2})
      for (const bool in_place : {false, true})
        reductions.push_back({"all_reduce_two_shot", DataType::bfloat16, ReduceKind::avg, bytes / 2,
                              3, in_place, shift});
  PeerScene scene(GetParam(), small_slot_bytes);
  EXPECT_EQ(wrong_of(scene, reductions), "");
}

TEST_P(PeerKernels, FillTheSlotsToTheirEnd) {
  const std::size_t most = slot_bytes / sizeof(float);
  PeerScene scene(GetParam(), slot_bytes);
  EXPECT_EQ(
      wrong_of(scene, {{"all_reduce_one_shot", DataType::float32, ReduceKind::sum, most, 3},
                       {"all_reduce_two_shot", DataType::float32, ReduceKind::sum, most, 3, true},
                       {"reduce", DataType::float32, ReduceKind::sum, most, 3, true}}),
      "");
}

}  // namespace
}  // namespace hymn::test
