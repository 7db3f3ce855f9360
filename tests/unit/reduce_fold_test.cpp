// reduce_all with every combination of places for the result: in place or apart, with a copy,
// streamed; and copy_bytes. For every element type, operation and instruction set, with 1 to 9
// ranks, odd counts and odd addresses, against the scalar reference.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/reduce/kernel_table.hpp"
#include "tests/unit/reduce_reference.hpp"
#include "tests/unit/reduce_scene.hpp"
#include "tests/unit/reduce_targets.hpp"

namespace hymn {
namespace {

using reference::OddArray;
using reference::Random;
using reference::Scene;

constexpr std::size_t counts[] = {0, 1, 2, 3, 5, 8, 15, 31, 33, 63, 64, 65, 129, 300};
constexpr std::size_t long_count = 2503;  // several blocks of the widest accumulators
constexpr std::size_t offsets[] = {0, 1, 2, 4, 8, 12, 16, 32, 48};
constexpr int most_ranks = 9;
constexpr int apart = -1;
constexpr int none = -2;

/// Where a result goes: an input's rank, or one of the above.
struct Choice {
  int output = apart;
  int copy = none;
  bool stream = false;
};

std::vector<Choice> choices(int ranks) {
  std::vector<Choice> all;
  for (const bool stream : {false, true})
    for (const int output : {apart, 0, ranks - 1})
      for (const int copy : {none, apart, 0, ranks - 1})
        if (copy != output || copy == apart) all.push_back({output, copy, stream});
  return all;
}

std::string text(const Choice& choice, int ranks, std::size_t count) {
  return std::to_string(ranks) + " ranks, " + std::to_string(count) + " elements, output " +
         std::to_string(choice.output) + ", copy " + std::to_string(choice.copy) +
         (choice.stream ? ", streamed" : "");
}

template <class Reference>
class Folding {
 public:
  using Array = OddArray<typename Reference::Element>;

  Folding(Random& random, const ReduceOp& op, int ranks, std::size_t count)
      : op_(op),
        ranks_(ranks),
        count_(count),
        scene_(random, op, static_cast<std::size_t>(ranks), count) {
    // Every array has an address of its own kind.
    const auto offset = [&random] { return offsets[random() % std::size(offsets)]; };
    apart_.assign(2, Array(count, offset()));
    apart_[1] = Array(count, offset());
    for (Array& input : scene_.inputs) {
      Array moved(count, offset());
      if (count != 0)
        std::memcpy(moved.data(), input.data(), count * sizeof(typename Reference::Element));
      input = moved;
    }
  }

  void run(const Reducer& reducer, const Choice& choice) {
    SCOPED_TRACE(text(choice, ranks_, count_));
    std::vector<const void*> inputs;
    for (Array& input : scene_.inputs) inputs.push_back(input.data());
    Array& output = place(choice.output, 0);
    void* const copy = choice.copy == none ? nullptr : place(choice.copy, 1).data();
    reduce_all(reducer, inputs.data(), ranks_, output.data(), count_, nullptr,
               {.copy = copy, .stream = choice.stream});
    check(output, "output");
    if (choice.copy != none) check(place(choice.copy, 1), "copy");
  }

 private:
  Array& place(int choice, std::size_t which) {
    return choice == apart ? apart_[which] : scene_.inputs[static_cast<std::size_t>(choice)];
  }

  void check(Array& result, const char* what) {
    EXPECT_TRUE(result.is_whole()) << what;
    for (std::size_t i = 0; i < count_; ++i)
      ASSERT_TRUE(Reference::same(op_.kind(), result.get(i), scene_.expected[i]))
          << what << ", element " << i;
  }

  ReduceOp op_;
  int ranks_;
  std::size_t count_;
  Scene<Reference> scene_;
  std::vector<Array> apart_;
};

using FoldCell = std::tuple<const TargetKernels*, DataType, ReduceKind>;

std::vector<FoldCell> fold_cells() {
  std::vector<FoldCell> cells;
  for (const TargetKernels& target : all_target_kernels())
    for (std::size_t type = 0; type < data_type_count; ++type)
      for (std::size_t kind = 0; kind < reduce_kind_count; ++kind)
        if (!is_custom(static_cast<ReduceKind>(kind)) &&
            refusal(static_cast<DataType>(type), static_cast<ReduceKind>(kind)).empty())
          cells.emplace_back(&target, static_cast<DataType>(type), static_cast<ReduceKind>(kind));
  return cells;
}

std::string name_of_fold(const testing::TestParamInfo<FoldCell>& info) {
  const auto& [target, dtype, kind] = info.param;
  return target->name + "_" + std::string(to_string(dtype)) + "_" + std::string(to_string(kind));
}

class Places : public testing::TestWithParam<FoldCell> {};

TEST_P(Places, AllGetTheBitsOfTheReference) {
  const auto& [target, dtype, kind] = GetParam();
  const ReduceOp op = kind == ReduceKind::premul_sum ? ReduceOp::premul_sum(3) : ReduceOp::of(kind);
  const Reducer reducer = detail::make_reducer(target->table, dtype, op);
  Random random(100 * static_cast<unsigned>(dtype) + static_cast<unsigned>(kind));
  std::size_t checked = 0;
  reference::with_reference(dtype, [&]<class Reference>() {
    for (int ranks = 1; ranks <= most_ranks; ++ranks)
      for (const Choice& choice : choices(ranks)) {
        const std::size_t count = counts[random() % std::size(counts)];
        Folding<Reference>(random, op, ranks, count).run(reducer, choice);
        ++checked;
      }
    for (const int ranks : {2, 3})
      for (const bool stream : {false, true})
        Folding<Reference>(random, op, ranks, long_count)
            .run(reducer, {.output = 0, .copy = 1, .stream = stream});
  });
  EXPECT_GE(checked, 100u);
}

INSTANTIATE_TEST_SUITE_P(Fold, Places, testing::ValuesIn(fold_cells()), name_of_fold);

TEST(FoldKernels, AreThereForAllThatNeedsNoLoad) {
  for (const auto& [target, dtype, kind] : fold_cells()) {
    const Reducer reducer = detail::make_reducer(target->table, dtype, ReduceOp::of(kind));
    const bool is_complex = dtype == DataType::complex64 || dtype == DataType::complex128;
    const bool is_left_out = kind == ReduceKind::product && (is_complex || size_of(dtype) == 1);
    EXPECT_EQ(reducer.fold != nullptr, !reducer.needs_load() && !is_left_out)
        << to_string(dtype) << " " << to_string(kind);
  }
}

TEST(CopyBytes, CopiesStreamedOrNotWhateverTheAddresses) {
  for (const bool stream : {false, true})
    for (const std::size_t count : {0u, 1u, 63u, 64u, 65u, 1000u})
      for (const std::size_t to : offsets)
        for (const std::size_t from : offsets) {
          OddArray<std::uint8_t> source(count, from);
          OddArray<std::uint8_t> target(count, to);
          for (std::size_t i = 0; i < count; ++i) source.set(i, static_cast<std::uint8_t>(7 * i));
          copy_bytes(target.data(), source.data(), count, stream);
          EXPECT_TRUE(target.is_whole());
          EXPECT_TRUE(count == 0 || std::memcmp(target.data(), source.data(), count) == 0)
              << count << " bytes from " << from << " to " << to;
        }
}

}  // namespace
}  // namespace hymn
