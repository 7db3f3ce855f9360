// Random chains of functional collectives beside a model of all ranks, which computes one element
// after the other: eagerly, captured and replayed, and made faster.
#include <random>

#include "hymn/capture.hpp"
#include "hymn/objects.hpp"
#include "tests/functional/arrays.hpp"
#include "tests/support/seeds.hpp"

namespace hymn::test {
namespace {

/// An array of whole numbers, by their indices; of the model.
struct Grid {
  Shape shape;
  std::vector<double> elements;
};

std::int64_t product(std::span<const std::int64_t> sizes) {
  std::int64_t result = 1;
  for (const std::int64_t size : sizes) result *= size;
  return result;
}

/// Where an index is in memory, the last dimension fastest.
std::size_t place_of(const Shape& shape, const Shape& index) {
  std::int64_t place = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) place = place * shape[i] + index[i];
  return static_cast<std::size_t>(place);
}

/// Calls visit(index) for all indices of the shape, in order.
template <class Visit>
void for_each_index(const Shape& shape, Visit&& visit) {
  Shape index(shape.size());
  for (std::int64_t i = 0; i < product(shape); ++i) {
    std::int64_t rest = i;
    for (std::size_t d = shape.size(); d-- > 0;) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    visit(std::as_const(index));
  }
}

/// The grid of this shape whose element at an index is what `element` tells.
template <class Element>
Grid grid_of(Shape shape, Element&& element) {
  Grid grid{std::move(shape), {}};
  for_each_index(grid.shape, [&](const Shape& index) { grid.elements.push_back(element(index)); });
  return grid;
}

/// One step of a chain, the same on all ranks.
struct ChainStep {
  fc::Collective collective;
  bool is_transposed = false;  ///< what it takes is, before: its first and its last dimension
  int groups = 0;              ///< 0: all ranks; 1, 2: of two columns, the dimension and 1
};

class Chain {
 public:
  Chain(std::uint64_t seed, int ranks) : random_(seed), ranks_(ranks) {
    dtype_ = std::vector{DataType::int64, DataType::float64, DataType::float32}[number(0, 2)];
    for (std::size_t i = 0, count = number(1, 3); i < count; ++i)
      shape_.push_back(static_cast<std::int64_t>(number(1, 3)) * ranks);
    for (std::size_t i = 0, count = number(1, 5); i < count; ++i) add_step();
  }

  DataType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const std::vector<ChainStep>& steps() const { return steps_; }

  /// What each rank begins with: small numbers, which may be added and multiplied without rounding.
  Grid start_of(int rank) const {
    std::int64_t next = rank;
    return grid_of(shape_, [&](const Shape&) {
      next = (next * 7 + 3) % 5;
      return static_cast<double>(next - 2);
    });
  }

 private:
  std::size_t number(std::size_t least, std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(least, most)(random_);
  }

  void add_step() {
    ChainStep step;
    step.is_transposed = number(0, 1) == 1;
    step.groups = ranks_ % 2 == 0 ? static_cast<int>(number(0, 2)) : 0;
    fc::Collective& collective = step.collective;
    static constexpr fc::Operation operations[] = {fc::Operation::all_reduce,
                                                   fc::Operation::all_gather_tensor,
                                                   fc::Operation::reduce_scatter_tensor,
                                                   fc::Operation::broadcast,
                                                   fc::Operation::all_to_all_single,
                                                   fc::Operation::permute_tensor};
    collective.operation = operations[number(0, std::size(operations) - 1)];
    // Whether a dimension has equal parts by then is not known here: results_of() will say.
    collective.dimensions = {static_cast<std::int64_t>(number(0, shape_.size() - 1))};
    if (number(0, 1) == 1) collective.dimensions[0] -= static_cast<std::int64_t>(shape_.size());
    static constexpr ReduceKind kinds[] = {ReduceKind::sum, ReduceKind::min, ReduceKind::max};
    collective.reduction = ReduceOp::of(kinds[number(0, 2)]);
    collective.root = static_cast<int>(number(0, 100));  // taken by its place, below
    turn_ = static_cast<int>(number(0, 100));
    collective.destinations = {turn_};
    steps_.push_back(step);
  }

  std::mt19937_64 random_;
  int ranks_;
  int turn_ = 0;
  DataType dtype_ = DataType::float32;
  Shape shape_;
  std::vector<ChainStep> steps_;
};

/// The ranks of a step's group that this rank is in.
std::vector<int> group_ranks(const ChainStep& step, int rank, int ranks) {
  std::vector<int> members;
  for (int other = 0; other < ranks; ++other)
    if (step.groups == 0 || (step.groups == 1 && other % 2 == rank % 2) ||
        (step.groups == 2 && other / 2 == rank / 2))
      members.push_back(other);
  return members;
}

/// For the ranks of its group.
fc::Collective fitted(const ChainStep& step, const std::vector<int>& members) {
  fc::Collective collective = step.collective;
  const auto size = static_cast<int>(members.size());
  collective.root = members[static_cast<std::size_t>(collective.root % size)];
  const int turn = collective.destinations[0];
  collective.destinations.clear();
  for (int i = 0; i < size; ++i) collective.destinations.push_back((i + turn) % size);
  return collective;
}

Grid transposed(const Grid& grid) {
  Shape shape = grid.shape;
  std::swap(shape.front(), shape.back());
  return grid_of(shape, [&](Shape index) {
    std::swap(index.front(), index.back());
    return grid.elements[place_of(grid.shape, index)];
  });
}

double reduced(ReduceKind kind, double one, double other) {
  if (kind == ReduceKind::min) return std::min(one, other);
  if (kind == ReduceKind::max) return std::max(one, other);
  return one + other;
}

double reduction_at(ReduceKind kind, const std::vector<const Grid*>& all, const Shape& index) {
  const std::size_t place = place_of(all[0]->shape, index);
  double value = all[0]->elements[place];
  for (std::size_t i = 1; i < all.size(); ++i)
    value = reduced(kind, value, all[i]->elements[place]);
  return value;
}

/// What rank `own` of the group gets.
Grid model_of(const fc::Collective& collective, const std::vector<const Grid*>& all,
              std::size_t own, const std::vector<int>& members, const Shape& result) {
  const auto size = static_cast<std::int64_t>(all.size());
  const auto dimensions = static_cast<std::int64_t>(result.size());
  const std::int64_t given = collective.dimensions[0];
  const auto d = static_cast<std::size_t>(given < 0 ? given + dimensions : given);
  const std::int64_t part = all[0]->shape[d];
  const auto element = [&](Shape index) {
    switch (collective.operation) {
      case fc::Operation::all_gather_tensor: {
        const auto from = static_cast<std::size_t>(index[d] / part);
        index[d] %= part;
        return all[from]->elements[place_of(all[from]->shape, index)];
      }
      case fc::Operation::reduce_scatter_tensor:
        index[d] += static_cast<std::int64_t>(own) * part / size;
        return reduction_at(collective.reduction.kind(), all, index);
      case fc::Operation::broadcast: {
        const auto root = static_cast<std::size_t>(
            std::find(members.begin(), members.end(), collective.root) - members.begin());
        return all[root]->elements[place_of(result, index)];
      }
      case fc::Operation::all_to_all_single: {
        const std::int64_t rows = result[0] / size;
        const auto from = static_cast<std::size_t>(index[0] / rows);
        index[0] = static_cast<std::int64_t>(own) * rows + index[0] % rows;
        return all[from]->elements[place_of(result, index)];
      }
      case fc::Operation::permute_tensor: {
        const auto from = static_cast<std::size_t>(std::find(collective.destinations.begin(),
                                                             collective.destinations.end(),
                                                             static_cast<int>(own)) -
                                                   collective.destinations.begin());
        return all[from]->elements[place_of(result, index)];
      }
      case fc::Operation::all_reduce:
      case fc::Operation::all_reduce_coalesced:
      case fc::Operation::all_gather_into_tensor_coalesced:
      case fc::Operation::reduce_scatter_tensor_coalesced:
        break;
    }
    return reduction_at(collective.reduction.kind(), all, index);
  };
  return grid_of(result, element);
}

constexpr std::int64_t most_elements = 4000;

/// The call's results, or nothing where it does not fit these shapes: the same on all ranks.
std::optional<Shape> shape_after(const ChainStep& step, const Shape& shape, DataType dtype,
                                 const std::vector<int>& members) {
  const ArraySpec spec{shape, dtype};
  try {
    const ArraySpec result =
        results_of(fitted(step, members), std::span(&spec, 1), fc::Where::ranks_alone(members))
            .front();
    if (result.count() <= most_elements) return result.shape;
  } catch (const UsageError&) {
  }
  return std::nullopt;
}

/// What all ranks have at the end.
std::vector<Grid> model_of(const Chain& chain, int ranks) {
  std::vector<Grid> grids;
  for (int rank = 0; rank < ranks; ++rank) grids.push_back(chain.start_of(rank));
  for (const ChainStep& step : chain.steps()) {
    if (step.is_transposed)
      for (Grid& grid : grids) grid = transposed(grid);
    std::vector<Grid> after;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<int> members = group_ranks(step, rank, ranks);
      const auto shape = shape_after(step, grids[0].shape, chain.dtype(), members);
      if (!shape.has_value()) break;
      std::vector<const Grid*> all;
      for (const int member : members) all.push_back(&grids[static_cast<std::size_t>(member)]);
      const auto own = static_cast<std::size_t>(std::find(members.begin(), members.end(), rank) -
                                                members.begin());
      after.push_back(model_of(fitted(step, members), all, own, members, *shape));
    }
    if (!after.empty()) grids = std::move(after);
  }
  return grids;
}

class Runner {
 public:
  Runner(World& world, const Chain& chain) : world_(world), chain_(chain) {}

  Array start() const {
    const Grid grid = chain_.start_of(world_.rank());
    const Array array = Array::empty(grid.shape, chain_.dtype());
    for (std::size_t i = 0; i < grid.elements.size(); ++i) set(array, i, grid.elements[i]);
    return array;
  }

  Array run(Array array) const {
    for (const ChainStep& step : chain_.steps()) {
      if (step.is_transposed)
        array = array.transpose(0, static_cast<std::int64_t>(array.dimensions()) - 1);
      const std::vector<int> members = group_ranks(step, world_.rank(), world_.size());
      if (!shape_after(step, array.shape(), chain_.dtype(), members).has_value()) continue;
      array = call(fitted(step, members), std::span(&array, 1), where(step)).front();
    }
    return array;
  }

  void expect(const Array& array, const Grid& grid, const std::string& how) const {
    ASSERT_EQ(array.shape(), grid.shape) << how;
    std::vector<double> elements;
    const Array whole = array.contiguous();
    for (std::size_t i = 0; i < grid.elements.size(); ++i) elements.push_back(get(whole, i));
    EXPECT_EQ(elements, grid.elements) << how << " on rank " << world_.rank();
  }

 private:
  fc::Where where(const ChainStep& step) const {
    if (step.groups == 0) return world_.group();
    return {two_columns(world_), static_cast<std::size_t>(step.groups - 1)};
  }

  void set(const Array& array, std::size_t i, double value) const {
    if (chain_.dtype() == DataType::int64)
      array.mutable_values<std::int64_t>()[i] = static_cast<std::int64_t>(value);
    else if (chain_.dtype() == DataType::float64)
      array.mutable_values<double>()[i] = value;
    else
      array.mutable_values<float>()[i] = static_cast<float>(value);
  }
  double get(const Array& array, std::size_t i) const {
    if (chain_.dtype() == DataType::int64)
      return static_cast<double>(array.values<std::int64_t>()[i]);
    return chain_.dtype() == DataType::float64 ? array.values<double>()[i]
                                               : static_cast<double>(array.values<float>()[i]);
  }

  World& world_;
  const Chain& chain_;
};

/// Those of all ranks, by what each of them tells of its own.
void expect_match(World& world, const Program& own) {
  std::vector<Program> programs;
  for (const std::string& text : all_gather_object(world.group(), own.to_json()))
    programs.push_back(Program::from_json(text));
  EXPECT_EQ(find_mismatch(programs), "");
}

void run_chain(World& world, std::uint64_t seed) {
  const Chain chain(seed, world.size());
  const Grid expected = model_of(chain, world.size())[static_cast<std::size_t>(world.rank())];
  const Runner runner(world, chain);
  runner.expect(runner.run(runner.start()), expected, "eagerly");

  const Array input = seed % 2 == 0 ? runner.start() : Array::meta(chain.shape(), chain.dtype());
  Captured captured = capture(std::span(&input, 1), [&](std::span<const Array> inputs) {
    // Twice, so that there is something to coalesce.
    return std::vector<Array>{runner.run(inputs[0]), runner.run(inputs[0])};
  });
  const auto replayed = [&](const std::string& how) {
    for (const Array& result : replay(captured, world, std::vector{runner.start()}))
      runner.expect(result, expected, how);
  };
  replayed("replayed");
  expect_match(world, captured.program);
  const std::size_t waits = captured.program.count("wait_tensor");
  captured.program = Program::from_json(optimised(captured.program).to_json());
  expect_match(world, captured.program);
  replayed("optimised");
  EXPECT_LE(captured.program.count("wait_tensor"), waits + 2);  // the ends are waited for, too
}

// Numbers are whole and small: no order of the steps can round them.
RANK_TEST(RandomFunctional, ChainsGiveWhatAModelGives) {
  const std::uint64_t first = first_seed();
  const std::uint64_t cases = std::stoull(word_from("TEST_CASES", "60"));
  for (std::uint64_t seed = first; seed < first + cases; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_chain(world, seed);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace hymn::test
