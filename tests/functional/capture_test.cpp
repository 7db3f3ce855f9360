// Captured programs: what is in them, and what comes out when they are replayed.
#include "hymn/capture.hpp"

#include "tests/functional/arrays.hpp"

namespace hymn::test {
namespace {

using Arrays = std::span<const Array>;

Array plus(const Array& array, float number) {
  return fc::apply("plus", {array}, array.spec(), [number](Arrays inputs, const Array& result) {
    const std::vector<float> elements = elements_of<float>(inputs[0]);
    const std::span<float> out = result.mutable_values<float>();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = elements[i] + number;
  });
}

/// A program of one input, with what it gives.
Captured capture_of(const Array& input, const std::function<Array(const Array&)>& body) {
  return capture(std::span(&input, 1),
                 [&](Arrays inputs) { return std::vector<Array>{body(inputs[0])}; });
}

RANK_TEST(MakeFx, test_all_reduce_tracing) {
  const Mesh mesh = one_row(world);
  const auto ranks = static_cast<float>(world.size());
  for (const fc::Where& where :
       {fc::Where(world.group()), fc::Where(mesh), fc::Where(mesh, std::size_t{0})})
    for (const bool is_meta : {false, true}) {
      const Array input = is_meta ? Array::meta({4}, DataType::float32) : ones({4});
      const Captured captured = capture_of(
          input, [&](const Array& array) { return plus(fc::all_reduce(array, "sum", where), 1); });
      EXPECT_EQ(captured.program.count("all_reduce"), 1u);
      EXPECT_EQ(captured.program.count("wait_tensor"), 1u);
      EXPECT_EQ(captured.program.nodes.size(), 3u);
      EXPECT_EQ(captured.program.groups, (std::vector{ProgramGroup{where.tag(), where.ranks()}}));
      const std::string json = captured.program.to_json();
      EXPECT_EQ(json.find("\"mesh"), std::string::npos) << json;
      EXPECT_NE(captured.program.to_dot().find("all_reduce sum"), std::string::npos);
      const std::vector<Array> again = replay(captured, world, std::vector{ones({4})});
      expect_all<float>(again.at(0), {4}, ranks + 1);
    }
}

RANK_TEST(CollectivesWithNCCL, test_tracing) {
  const Captured captured = capture_of(counting({8}), [&](const Array& array) {
    return fc::all_reduce(array, "sum", world.group());
  });
  EXPECT_EQ(captured.program.count("all_reduce"), 1u);
  EXPECT_EQ(captured.program.count("wait_tensor"), 0u);  // nobody has looked
  const Array sum = replay(captured, world, std::vector{counting({8}, 1)}).at(0);
  EXPECT_EQ(sum.at<float>(7), static_cast<float>(8 * world.size()));
}

// Views and copies of results are part of the program.
RANK_TEST(Capture, FollowsViewsAndCopies) {
  const auto body = [&](const Array& array) {
    const Array all = fc::all_gather_tensor(array, 1, world.group());
    const Array turned = all.transpose(0, 1).contiguous();
    const Array part = turned.narrow(0, world.rank() * 3, 3);
    return fc::all_reduce(part.reshape({6}), "max", world.group()).view({3, 2});
  };
  const Captured captured = capture_of(counting({2, 3}), body);
  EXPECT_EQ(captured.program.count("copy"), 1u);
  EXPECT_EQ(captured.program.inputs.size(), 1u);
  const Array input = counting({2, 3}, static_cast<float>(10 * world.rank()));
  EXPECT_EQ(elements_of<float>(replay(captured, world, std::vector{input}).at(0)),
            elements_of<float>(body(input)));
}

// What the program computes by itself is another input.
RANK_TEST(Capture, WhatIsWrittenIsAnInput) {
  const Captured captured = capture([&] {
    const Array sum = fc::all_reduce(ones({2}), "sum", world.group());
    sum.mutable_values<float>()[0] = 5;
    const Array other = Array::full<float>({2}, sum.at<float>(0));
    (void)fc::all_reduce(sum, "max", world.group());
    (void)fc::all_reduce(other, "min", world.group());
  });
  EXPECT_EQ(captured.program.count("all_reduce"), 3u);
  EXPECT_EQ(captured.program.count("wait_tensor"), 1u);
  EXPECT_EQ(captured.program.inputs.size(), 3u);
  EXPECT_EQ(captured.program.outputs.size(), 3u);
  const std::vector<Array> inputs{ones({2}), counting({2}), counting({2}, 4)};
  const std::vector<Array> results = replay(captured, world, inputs);
  expect_all<float>(results[0], {2}, static_cast<float>(world.size()));
  EXPECT_EQ(elements_of<float>(results[1]), (std::vector<float>{0, 1}));
  EXPECT_EQ(elements_of<float>(results[2]), (std::vector<float>{4, 5}));
}

/// One of each, with everything that a call may have.
std::vector<Array> one_of_each(World& world, const Array& array) {
  const ProcessGroup& group = world.group();
  const std::int64_t ranks = world.size();
  const fc::Splits out(std::vector<std::int64_t>(static_cast<std::size_t>(ranks), 2));
  std::vector<int> places(static_cast<std::size_t>(ranks));
  for (int i = 0; i < world.size(); ++i)
    places[static_cast<std::size_t>(i)] = (i + 1) % world.size();
  const std::vector<Array> two{array, plus(array, 1)};
  std::vector<Array> results{fc::broadcast(array, world.size() - 1, group),
                             fc::all_reduce(array, ReduceOp::premul_sum(0.5), group),
                             fc::all_to_all_single(array, out, out, group),
                             fc::all_to_all_single(array, {}, {}, group),
                             fc::permute_tensor(array, places, group),
                             fc::all_gather_tensor(array, -1, group),
                             fc::reduce_scatter_tensor(array, "avg", 0, group)};
  for (const Array& each : fc::all_reduce_coalesced(two, "min", group)) results.push_back(each);
  for (const Array& each : fc::all_gather_into_tensor_coalesced(two, group))
    results.push_back(each);
  for (const Array& each :
       fc::reduce_scatter_tensor_coalesced(two, "sum", std::vector<std::int64_t>{0, 0}, group))
    results.push_back(each);
  return results;
}

RANK_TEST(Capture, GoesThroughJson) {
  const Shape shape{2 * world.size(), 3};
  const Array meta = Array::meta(shape, DataType::float32);
  Captured captured =
      capture(std::span(&meta, 1), [&](Arrays inputs) { return one_of_each(world, inputs[0]); });
  const std::string text = captured.program.to_json();
  captured.program = Program::from_json(text);
  EXPECT_EQ(captured.program.to_json(), text);
  const Array input = counting(shape, static_cast<float>(world.rank()));
  const std::vector<Array> results = replay(captured, world, std::vector{input});
  const std::vector<Array> expected = one_of_each(world, input);
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].shape(), expected[i].shape());
    EXPECT_EQ(elements_of<float>(results[i]), elements_of<float>(expected[i])) << i;
  }
}

RANK_TEST(Capture, RefusesWhatDoesNotFit) {
  Captured captured = capture_of(ones({4}), [&](const Array& array) {
    return plus(fc::all_reduce(array, "sum", world.group()), 1);
  });
  const auto refused = [&](const std::vector<Array>& inputs, Words words) {
    expect_error(ErrorKind::usage, [&] { (void)replay(captured, world, inputs); }, words);
  };
  refused({ones({5})}, {"input 0", "float32 [4]"});
  refused({}, {"0 inputs"});
  expect_error(ErrorKind::usage, [&] { (void)capture([] { (void)capture([] {}); }); },
               {"another capture"});
  captured.program.rank = world.size();
  refused({ones({4})}, {"not in the group"});
}

// --- Gradients, as data.

fc::Splits one_each(const World& world) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(world.size()), 1);
}

/// The gradient of a sum of twice the input, exchanged.
Array gradient_of_exchange(World& world, const Array& input) {
  const Array twice = fc::apply("twice", {input}, input.spec(), [](Arrays in, const Array& out) {
    for (std::int64_t i = 0; i < out.count(); ++i)
      out.mutable_values<float>()[static_cast<std::size_t>(i)] =
          2 * in[0].values<float>()[static_cast<std::size_t>(i)];
  });
  const fc::Differentiable exchanged =
      fc::all_to_all_single_autograd(twice, one_each(world), one_each(world), world.group());
  if (!input.is_meta()) expect_all<float>(exchanged.result, input.shape(), 2);
  fc::wait_tensor(exchanged.result);
  const Array seed = Array::full<float>(input.shape(), 1);
  const Array back = exchanged.vjp(input.is_meta() ? Array::meta(seed.spec()) : seed);
  return fc::apply("twice", {back}, back.spec(), [](Arrays in, const Array& out) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(out.count()); ++i)
      out.mutable_values<float>()[i] = 2 * in[0].values<float>()[i];
  });
}

RANK_TEST(FunctionalAutograd, test_all_to_all_single) {
  const Array input = ones({world.size(), 2});
  expect_all<float>(gradient_of_exchange(world, input), input.shape(), 2);
}

RANK_TEST(FunctionalAutogradWithNCCL, test_all_to_all_single) {
  const Array input = ones({world.size(), 2});
  expect_all<float>(gradient_of_exchange(world, input), input.shape(), 2);
}

// Captured together, with elements and by shapes alone: one call each, and one wait each.
RANK_TEST(FunctionalAutograd, test_all_to_all_single_inductor) {
  for (const bool is_meta : {false, true}) {
    const Shape shape{world.size(), 2};
    const Array input = is_meta ? Array::meta(shape, DataType::float32) : ones(shape);
    const Captured captured =
        capture_of(input, [&](const Array& array) { return gradient_of_exchange(world, array); });
    for (const bool is_backward : {false, true}) {
      EXPECT_EQ(captured.program.count("all_to_all_single", is_backward), 1u);
      EXPECT_EQ(captured.program.count("wait_tensor", is_backward), 1u);
    }
  }
}

RANK_TEST(FunctionalAutograd, test_all_gather_tensor) {
  for (const std::int64_t dimension : {0, 1, 2}) {
    const fc::Differentiable gathered =
        fc::all_gather_tensor_autograd(ones({3, 3, 3}), dimension, world.group());
    Shape shape{3, 3, 3};
    shape[static_cast<std::size_t>(dimension)] *= world.size();
    expect_all<float>(gathered.result, shape, 1);
    expect_all<float>(gathered.vjp(ones(shape)), {3, 3, 3}, static_cast<float>(world.size()));
  }
}

RANK_TEST(FunctionalAutograd, test_reduce_scatter_tensor) {
  for (const std::int64_t dimension : {0, 1}) {
    Shape shape{3, 3};
    shape[static_cast<std::size_t>(dimension)] *= world.size();
    const fc::Differentiable part =
        fc::reduce_scatter_tensor_autograd(ones(shape), "sum", dimension, world.group());
    expect_all<float>(part.result, {3, 3}, static_cast<float>(world.size()));
    expect_all<float>(part.vjp(ones({3, 3})), shape, 1);
  }
}

RANK_TEST(FunctionalAutograd, SplitsComeBack) {
  // As many to each as its number tells, and one more.
  fc::Splits in(std::in_place);
  fc::Splits out(std::in_place);
  for (int rank = 0; rank < world.size(); ++rank) {
    in->push_back(rank + 1);
    out->push_back(world.rank() + 1);
  }
  std::int64_t rows = 0;
  for (const std::int64_t size : *in) rows += size;
  const Array sent = counting({rows, 2}, static_cast<float>(100 * world.rank()));
  const fc::Differentiable there = fc::all_to_all_single_autograd(sent, out, in, world.group());
  EXPECT_EQ(there.result.size(0), world.size() * (world.rank() + 1));
  EXPECT_EQ(there.vjp.gradient(), there.result.spec());
  EXPECT_EQ(elements_of<float>(there.vjp(there.result)), elements_of<float>(sent));
  expect_error(ErrorKind::usage, [&] { (void)there.vjp(ones({1})); }, {"gradient"});
  expect_error(ErrorKind::unsupported,
               [&] {
                 (void)fc::reduce_scatter_tensor_autograd(ones({world.size()}), "max", 0,
                                                          world.group());
               },
               {"only a sum"});
}

}  // namespace
}  // namespace hymn::test
