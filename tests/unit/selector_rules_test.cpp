// The choice among candidates by measured times, and by the algorithm setting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "collectives/planner/tuning_table.hpp"
#include "hymn/error.hpp"
#include "tests/unit/fake_candidates.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

/// One host of two ranks, for which these times of all_reduce were measured, by path.
PlanContext measured(const std::map<std::string, std::vector<TuningRow::Point>>& times) {
  auto table = std::make_shared<TuningTable>();
  table->measured = "some day";
  for (const auto& [path, points] : times)
    table->rows.push_back(
        {path, "all_reduce_" + path, OpType::all_reduce, DataType::float32, 2, 1, points});
  PlanContext context;
  context.layout = {.size = 2, .hosts = {{.machine = 0, .ranks = 2}}};
  context.tuning = std::move(table);
  return context;
}

Candidates one_for_each_path(Answer mpi_p2p = always) {
  Candidates candidates;
  candidates.add("mpi", "mpi", always);
  candidates.add("mpi_p2p", "mpi_p2p", std::move(mpi_p2p));
  candidates.add("exchange", "exchange", always);
  return candidates;
}

Request all_reduce_of(std::size_t count) {
  const BufferView view(values, count, DataType::float32);
  return Request::all_reduce(view, view);
}

TEST(SelectorRules, TakesTheFastestOfThoseMeasured) {
  const PlanContext context = measured({{"mpi", {{4, 1e-6}, {4096, 9e-6}}},
                                        {"mpi_p2p", {{4, 2e-6}, {4096, 3e-6}}},
                                        {"exchange", {{4, 5e-6}, {4096, 2e-6}}}});
  Selector selector = one_for_each_path().selector("", "", context);
  EXPECT_EQ(selector.pick(all_reduce_of(1)).path(), "mpi");
  EXPECT_EQ(selector.pick(all_reduce_of(512)).path(), "mpi_p2p");
  EXPECT_EQ(selector.pick(all_reduce_of(1024)).path(), "exchange");
  const Explanation explanation = selector.explain(all_reduce_of(1024));
  EXPECT_EQ(explanation.path, "exchange");
  EXPECT_NEAR(explanation.predicted_us, 2, 1e-9);
  ASSERT_EQ(explanation.candidates.size(), 3u);
  EXPECT_NEAR(explanation.candidates[0].predicted_us, 9, 1e-9);
  EXPECT_EQ(explanation.candidates[0].cost_source, "tuned on some day");
}

TEST(SelectorRules, TakesTheFastestOnlyOfThoseThatCan) {
  const PlanContext context =
      measured({{"mpi", {{4, 3e-6}}}, {"mpi_p2p", {{4, 1e-6}}}, {"exchange", {{4, 2e-6}}}});
  EXPECT_EQ(
      one_for_each_path(no("not today")).selector("", "", context).pick(all_reduce_of(1)).path(),
      "exchange");
  EXPECT_EQ(one_for_each_path().selector("mpi,exchange", "", context).pick(all_reduce_of(1)).path(),
            "exchange");
}

TEST(SelectorRules, KeepsTheOrderWhereTimesAreEqualOrUnknown) {
  Selector equal = one_for_each_path().selector(
      "", "",
      measured({{"mpi", {{4, 1e-6}}}, {"mpi_p2p", {{4, 1e-6}}}, {"exchange", {{4, 1e-6}}}}));
  EXPECT_EQ(equal.pick(all_reduce_of(1)).path(), "mpi");
  PlanContext nothing = measured({});
  nothing.tuning = nullptr;
  Candidates unheard_of;
  unheard_of.add("a", "abacus", always);
  unheard_of.add("mpi", "mpi", always);
  Selector unknown = unheard_of.selector("", "", nothing);
  EXPECT_EQ(unknown.pick(all_reduce_of(1)).path(), "abacus");
  EXPECT_EQ(unknown.explain(all_reduce_of(1)).candidates[1].cost_source, "default table");
}

// Its size is known to each rank alone: a choice by time could come out differently on another.
TEST(SelectorRules, KeepsTheOrderWhereSizesAreUneven) {
  Selector selector = one_for_each_path().selector(
      "", "",
      measured({{"mpi", {{4, 9e-6}}}, {"mpi_p2p", {{4, 1e-6}}}, {"exchange", {{4, 2e-6}}}}));
  const std::vector<std::size_t> counts = {3, 5};
  const Request uneven = Request::all_to_all(InputBlocks::counted(ConstBufferView(values), counts),
                                             OutputBlocks::counted(BufferView(values), counts));
  EXPECT_EQ(selector.pick(uneven).path(), "mpi");
}

TEST(SelectorRules, ObeysTheAlgorithmSetting) {
  const auto pick_with = [](std::string_view path, std::string_view algo) {
    Candidates candidates;
    candidates.add("mpi", "mpi", always, OpType::all_reduce);
    candidates.add("pairwise", "mpi_p2p", always, OpType::all_reduce);
    candidates.add("pairwise", "exchange", always, OpType::all_reduce);
    candidates.add("mpi", "mpi", always, OpType::broadcast);
    Selector selector = candidates.selector(path, algo, {});
    EXPECT_EQ(selector.pick(Request::broadcast(BufferView(values), 0)).path(), "mpi");
    return std::string(selector.pick(some_all_reduce).path());
  };
  EXPECT_EQ(pick_with("", "all_reduce_mpi"), "mpi");
  EXPECT_EQ(pick_with("", "all_reduce_pairwise"), "mpi_p2p");
  EXPECT_EQ(pick_with("^mpi_p2p", "all_reduce_pairwise"), "exchange");
  EXPECT_EQ(pick_with("", "^all_reduce_mpi"), "mpi_p2p");
  EXPECT_EQ(pick_with("", "broadcast_mpi"), "mpi");
  EXPECT_THROW(pick_with("", "reduce_pear_wise"), ConfigError);
}

// The setting is for the whole job, whose groups have different candidates.
TEST(SelectorRules, KnowsAlgorithmsThatOnlyOtherGroupsHave) {
  const auto selector_with = [](std::string_view algo) {
    Candidates candidates;
    candidates.add("mpi", "mpi", always, OpType::all_reduce);
    candidates.add("mpi", "mpi", always, OpType::broadcast);
    return candidates.selector("", algo, {});
  };
  for (const char* algo : {"^all_reduce_two_shot", "broadcast_slots", "barrier_direct"})
    EXPECT_EQ(selector_with(algo).pick(some_all_reduce).model().method, "mpi") << algo;
  Selector forced = selector_with("all_reduce_two_shot,all_reduce_pairwise");
  EXPECT_EQ(forced.pick(Request::broadcast(BufferView(values), 0)).model().method, "mpi");
  const std::string text = refusal_of([&] { forced.pick(some_all_reduce); });
  EXPECT_THAT(text, HasSubstr("this group has no all_reduce_two_shot; this group has no "
                              "all_reduce_pairwise; mpi (all_reduce_mpi): not allowed by"));
  EXPECT_THAT(text, HasSubstr("allow more"));
  // Its cost is known, but there is none to run.
  for (const char* algo : {"all_reduce_low_latency", "^all_reduce_two_shots", "send_recv"})
    EXPECT_THROW(selector_with(algo), ConfigError) << algo;
}

TEST(SelectorRules, OneRankAloneNeedsNoPath) {
  for (const int size : {1, 2}) {
    Candidates candidates;
    candidates.add("mpi", "mpi", no("MPI does not"));
    candidates.add("pairwise", "exchange", always);
    candidates.add("mpi", "mpi", always, OpType::broadcast);
    PlanContext context;
    context.layout.size = size;
    Selector selector = candidates.selector("mpi", "", context);
    if (size == 1) {
      EXPECT_EQ(selector.pick(some_all_reduce).model().method, "pairwise");
      EXPECT_EQ(selector.explain(some_all_reduce).algorithm, "all_reduce_pairwise");
      const Request broadcast = Request::broadcast(BufferView(values), 0);
      EXPECT_EQ(selector.explain(broadcast).path, "mpi") << "what is allowed comes first";
    } else {
      EXPECT_THROW(selector.pick(some_all_reduce), UnsupportedError);
      EXPECT_EQ(selector.explain(some_all_reduce).algorithm, "");
    }
  }
}

TEST(SelectorRules, TellsWhyAForceCannotBeMet) {
  Candidates candidates;
  candidates.add("a", "mpi", no("too long"));
  candidates.add("b", "mpi", always);
  Selector selector = candidates.selector("", "all_reduce_a", {});
  const std::string text = refusal_of([&] { selector.pick(some_all_reduce); });
  EXPECT_THAT(text, HasSubstr("mpi (all_reduce_a): too long"));
  EXPECT_THAT(text, HasSubstr("mpi (all_reduce_b): not allowed by the algorithm setting "
                              "'all_reduce_a'"));
  EXPECT_THAT(text, HasSubstr("HYMN_ALGO"));
}

// --- Reproducibility

/// Three candidates that promise ever more, the fastest least.
Selector graded_selector(Reproducibility level) {
  Candidates candidates;
  for (const auto promise : {Reproducibility::ranks, Reproducibility::runs,
                             Reproducibility::placement, Reproducibility::size})
    candidates.add(std::string(to_string(promise)), "mpi", always).promise = promise;
  return candidates.selector("", "", {}, level);
}

TEST(SelectorReproducibility, TakesTheFirstThatPromisesEnough) {
  for (const auto level : {Reproducibility::ranks, Reproducibility::runs,
                           Reproducibility::placement, Reproducibility::size}) {
    Selector selector = graded_selector(level);
    const std::string expected = "all_reduce_" + std::string(to_string(level));
    EXPECT_EQ(selector.pick(some_all_reduce).model().method, to_string(level));
    const Explanation why = selector.explain(some_all_reduce);
    EXPECT_EQ(why.algorithm, expected);
    for (const Candidate& candidate : why.candidates) {
      EXPECT_EQ(candidate.algorithm, "all_reduce_" + std::string(to_string(candidate.promises)));
      EXPECT_EQ(candidate.can_run, candidate.promises >= level);
      if (!candidate.can_run) {
        EXPECT_THAT(candidate.reason,
                    HasSubstr("the group asks for '" + std::string(to_string(level)) + "'"));
      }
    }
  }
}

TEST(SelectorReproducibility, AsksNothingWhereNoOrderChangesTheResult) {
  Selector selector = graded_selector(Reproducibility::size);
  std::int32_t whole[4] = {};
  const BufferView view(whole);
  EXPECT_EQ(selector.pick(Request::all_reduce(view, view)).model().method, "ranks");
  const BufferView floats(values);
  EXPECT_EQ(selector.pick(Request::all_reduce(floats, floats, ReduceOp::max)).model().method,
            "ranks");
  EXPECT_EQ(selector.pick(Request::broadcast(floats, 0)).model().method, "ranks");
}

TEST(SelectorReproducibility, NobodyPromisesExactProductsOrForeignOperations) {
  const BufferView floats(values);
  const Request product = Request::all_reduce(floats, floats, ReduceOp::product);
  EXPECT_EQ(graded_selector(Reproducibility::placement).pick(product).model().method, "placement");
  Selector exact = graded_selector(Reproducibility::size);
  for (const Candidate& candidate : exact.explain(product).candidates) {
    EXPECT_FALSE(candidate.can_run);
    EXPECT_THAT(candidate.reason, HasSubstr("order of its factors"));
  }
  EXPECT_THROW(exact.pick(product), UnsupportedError);
  const Request foreign = Request::all_reduce(floats, floats, ReduceOp::opaque(values));
  EXPECT_EQ(graded_selector(Reproducibility::ranks).pick(foreign).model().method, "ranks");
  EXPECT_EQ(graded_selector(Reproducibility::runs).pick(foreign).model().method, "runs");
}

TEST(SelectorReproducibility, ARefusalTellsTheWayOut) {
  Candidates candidates;
  candidates.add("mpi", "mpi", always);
  Selector selector = candidates.selector("", "", {}, Reproducibility::runs);
  try {
    selector.pick(some_all_reduce);
    FAIL() << "was picked";
  } catch (const UnsupportedError& error) {
    EXPECT_THAT(error.what(), HasSubstr("mpi (all_reduce_mpi): not reproducible enough"));
    EXPECT_THAT(error.what(), HasSubstr("ask for less in HYMN_REPRODUCIBLE"));
  }
}

}  // namespace
}  // namespace hymn::test
