// Gradients that travel as products of thin matrices.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "hymn/gradient_hooks.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/spoilt.hpp"
#include "tests/training/quarters.hpp"

namespace hymn::test {
namespace {

using training::GradientReducer;
using training::Parameter;
using training::PowerSgdOptions;

void quarters_by_power_sgd(World& world, DataType dtype = DataType::float32) {
  for (const bool batched : {false, true})
    for (const bool feedback : {false, true})
      for (const bool warm : {false, true})
        for (const std::uint64_t start : {2, 3})
          expect_quarters(
              world,
              [=] {
                return training::power_sgd({.start_iteration = start,
                                            .error_feedback = feedback,
                                            .warm_start = warm,
                                            .batched = batched});
              },
              .25, dtype);
}

RANK_TEST(PowerSgd, test_powerSGD_ddp_comm_hook_nccl_grad_is_view) { quarters_by_power_sgd(world); }
RANK_TEST(PowerSgd, TakesDoubles) { quarters_by_power_sgd(world, DataType::float64); }
RANK_TEST(PowerSgd, LeavesOtherTypes) {
  quarters_by_power_sgd(world, DataType::float16);
  quarters_by_power_sgd(world, DataType::complex64);
}

/// A model of one matrix and a bias, with gradients that a test gives.
class OneMatrix {
 public:
  OneMatrix(ProcessGroup group, std::int64_t rows, std::int64_t columns,
            const PowerSgdOptions& options)
      : parameters_(model_.add("matrix", {rows, columns}).add("bias", {rows}).parameters()),
        reducer_(std::move(group), parameters_, {.hook = training::power_sgd(options)}) {}

  std::vector<float> reduce(const std::vector<float>& matrix, float bias) {
    auto* const gradient = static_cast<float*>(parameters_[0].gradient.data);
    std::ranges::copy(matrix, gradient);
    ToyModel::fill(parameters_[1].gradient, bias);
    reducer_.ready(1);
    reducer_.ready(0);
    reducer_.finish();
    bias_ = ToyModel::value_of(parameters_[1].gradient);
    return {gradient, gradient + matrix.size()};
  }
  double bias() const { return bias_; }

 private:
  ToyModel model_;
  std::vector<Parameter> parameters_;
  GradientReducer reducer_;
  double bias_ = 0;
};

std::vector<float> random_matrix(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(engine);
  return values;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0, of = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::pow(a[i] - b[i], 2);
    of += std::pow(b[i], 2);
  }
  return std::sqrt(sum / of);
}

// What has that rank is not changed; a bias goes as it is.
RANK_TEST(PowerSgd, MatricesOfLowRankAreExact) {
  constexpr std::int64_t rows = 40, columns = 30;
  OneMatrix one(world.group(), rows, columns, {.rank = 2, .start_iteration = 2});
  const std::vector<float> u = random_matrix(rows * 2, 1), v = random_matrix(columns * 2, 2);
  std::vector<float> matrix(rows * columns);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j)
      matrix[i * columns + j] =
          u[2 * i] * v[2 * j] + static_cast<float>(world.rank() + 1) * u[2 * i + 1] * v[2 * j + 1];
  std::vector<float> average = matrix;
  world.group().all_reduce(BufferView(average), ReduceOp::avg);
  for (int iteration = 0; iteration < 6; ++iteration) {
    EXPECT_LT(distance(one.reduce(matrix, static_cast<float>(world.rank())), average), 1e-4)
        << "iteration " << iteration;
    EXPECT_NEAR(one.bias(), (world.size() - 1) / 2.0, 1e-6);
  }
}

// With feedback nothing is lost in the long run.
RANK_TEST(PowerSgd, FeedbackMakesUpForWhatIsLost) {
  constexpr std::int64_t rows = 24, columns = 20;
  for (const bool batched : {false, true}) {
    OneMatrix one(world.group(), rows, columns,
                  {.rank = 2, .start_iteration = 2, .batched = batched});
    const std::vector<float> matrix =
        random_matrix(rows * columns, 10 + static_cast<unsigned>(world.rank()));
    std::vector<float> average = matrix;
    world.group().all_reduce(BufferView(average), ReduceOp::avg);
    std::vector<float> sum(matrix.size());
    constexpr int iterations = 200;
    double worst = 0;
    for (int iteration = 0; iteration < iterations; ++iteration) {
      const std::vector<float> reduced = one.reduce(matrix, 1);
      worst = std::max(worst, distance(reduced, average));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += reduced[i] / iterations;
    }
    EXPECT_GT(worst, .2) << "the rank is too low for it";
    EXPECT_LT(distance(sum, average), .1);
  }
}

RANK_TEST(PowerSgd, AllRanksHaveTheSameBits) {
  OneMatrix one(world.group(), 33, 21, {.rank = 3, .start_iteration = 2});
  for (int iteration = 0; iteration < 5; ++iteration) {
    const auto seed = static_cast<unsigned>(100 * world.rank() + iteration);
    const std::vector<float> mine = one.reduce(random_matrix(33 * 21, seed), 1);
    std::vector<float> first = mine;
    world.group().broadcast(BufferView(first), 0);
    EXPECT_EQ(mine, first);
  }
}

// As after a step that a loss scaler leaves out; and gradients whose squares are not in the range.
RANK_TEST(PowerSgd, ForgetsWhatIsNotFinite) {
  OneMatrix one(world.group(), 30, 20, {.start_iteration = 2});
  std::vector<float> matrix(600, 1);
  for (const float scale :
       {1.0f, 1.0f, 1e25f, std::numeric_limits<float>::infinity(), 1e-30f, 1.0f, 1.0f}) {
    std::vector<float> scaled = matrix;
    for (float& value : scaled) value *= scale;
    const std::vector<float> reduced = one.reduce(scaled, 1);
    if (!std::isfinite(scale)) continue;
    const auto [least, greatest] = std::ranges::minmax_element(reduced);
    EXPECT_NEAR(*least / scale, 1, 1e-3) << scale;
    EXPECT_NEAR(*greatest / scale, 1, 1e-3) << scale;
  }
}

RANK_TEST(PowerSgd, SendsLess) {
  ProcessGroup group = fresh_group(world, "counted");
  OneMatrix one(group, 100, 100, {.start_iteration = 2});
  std::vector<std::size_t> bytes;
  group.on_completion([&bytes](const CompletionInfo& info) {
    if (info.type == OpType::all_reduce) bytes.push_back(info.bytes);
  });
  for (int iteration = 0; iteration < 3; ++iteration)
    one.reduce(random_matrix(10'000, static_cast<unsigned>(iteration)), 1);
  group.wait_for_pending_works();
  // Two whole ones; then P with the bias, and Q.
  EXPECT_EQ(bytes, (std::vector<std::size_t>{40'400, 40'400, 800, 400}));
}

TEST(PowerSgdOptions, ThatMakeNoSenseAreRefused) {
  expect_error(ErrorKind::usage, [] { (void)training::power_sgd({.rank = 0}); }, {"rank 0"});
  for (const bool feedback : {false, true})
    for (const bool warm : {false, true}) {
      const auto make = [&] {
        (void)training::power_sgd(
            {.start_iteration = 1, .error_feedback = feedback, .warm_start = warm});
      };
      if (feedback || warm)
        expect_error(ErrorKind::usage, make, {"start_iteration of 2"});
      else
        EXPECT_EQ(error_text(make), "");
    }
}

}  // namespace
}  // namespace hymn::test
