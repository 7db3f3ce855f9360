// The choice among candidates that the test makes up.
#include "collectives/dispatch/selector.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

#include "hymn/error.hpp"
#include "tests/unit/fake_candidates.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Selector, TakesTheFirstThatCan) {
  Candidates candidates;
  candidates.add("a", "mpi", no("not today"));
  candidates.add("b", "mpi", always);
  candidates.add("c", "exchange", always);
  Selector selector = candidates.selector();
  EXPECT_EQ(selector.pick(some_all_reduce).model().method, "b");
}

TEST(Selector, PassesOverWhatDoesNotServeTheOperation) {
  Candidates candidates;
  FakeAlgorithm& broadcast = candidates.add("a", "mpi", always, OpType::broadcast);
  candidates.add("b", "mpi", always, OpType::all_reduce);
  Selector selector = candidates.selector();
  EXPECT_EQ(selector.pick(some_all_reduce).model().method, "b");
  EXPECT_EQ(selector.explain(some_all_reduce).candidates.size(), 1u);
  EXPECT_EQ(broadcast.asked, 0);
  EXPECT_EQ(selector.pick(Request::broadcast(BufferView(values), 0)).model().method, "a");
}

TEST(Selector, RemembersNoAnswerForTagsAndAnySource) {
  Candidates candidates;
  candidates.add("a", "nccl", [](const Request& request) {
    return request.tag == 0 && request.peer != any_source ? Verdict::yes() : Verdict::no("neither");
  });
  candidates.add("b", "mpi", always);
  Selector selector = candidates.selector();
  const BufferView view(values);
  EXPECT_EQ(selector.pick(Request::recv(view, 1)).model().method, "a");
  EXPECT_EQ(selector.pick(Request::recv(view, 1, 7)).model().method, "b");
  EXPECT_EQ(selector.pick(Request::recv(view, any_source)).model().method, "b");
  EXPECT_EQ(selector.pick(Request::recv(view, 1)).model().method, "a");
}

TEST(Selector, ObeysThePathSetting) {
  const auto pick_with = [](std::string_view path) {
    Candidates candidates;
    candidates.add("a", "mpi", always);
    candidates.add("b", "mpi_p2p", always);
    candidates.add("c", "exchange", always);
    Selector selector = candidates.selector(path);
    return std::string(selector.pick(some_all_reduce).model().method);
  };
  EXPECT_EQ(pick_with(""), "a");
  EXPECT_EQ(pick_with("mpi_p2p"), "b");
  EXPECT_EQ(pick_with("exchange,mpi_p2p"), "b");
  EXPECT_EQ(pick_with("^mpi"), "b");
  EXPECT_EQ(pick_with("^mpi,mpi_p2p"), "c");
}

TEST(Selector, DoesNotAskWhatIsForbidden) {
  Candidates candidates;
  FakeAlgorithm& forbidden = candidates.add("a", "mpi", always);
  candidates.add("b", "exchange", always);
  Selector selector = candidates.selector("^mpi");
  EXPECT_EQ(selector.pick(some_all_reduce).model().method, "b");
  EXPECT_EQ(forbidden.asked, 0);
}

TEST(Selector, TellsWhyNobodyCan) {
  Candidates candidates;
  candidates.add("a", "mpi", no("too long"));
  candidates.add("b", "mpi_p2p", no("too short"));
  candidates.add("c", "exchange", always);
  candidates.add("d", "mpi", always, OpType::broadcast);
  Selector selector = candidates.selector("mpi,mpi_p2p");
  for (int i = 0; i < 2; ++i) {  // a refusal is not remembered as an answer
    const std::string text = refusal_of([&] { selector.pick(some_all_reduce); });
    EXPECT_THAT(text, HasSubstr("mpi (all_reduce_a): too long"));
    EXPECT_THAT(text, HasSubstr("mpi_p2p (all_reduce_b): too short"));
    EXPECT_THAT(text, HasSubstr("exchange (all_reduce_c): not allowed by the path setting "
                                "'mpi,mpi_p2p'"));
    EXPECT_THAT(text, Not(HasSubstr("broadcast_d")));
    EXPECT_THAT(text, HasSubstr("remedy: allow more paths"));
  }
}

TEST(Selector, WithoutAnyCandidate) {
  Selector selector = Candidates().selector();
  EXPECT_THAT(refusal_of([&] { selector.pick(some_all_reduce); }), HasSubstr("there is none"));
  const Explanation explanation = selector.explain(some_all_reduce);
  EXPECT_TRUE(explanation.path.empty());
  EXPECT_TRUE(explanation.algorithm.empty());
  EXPECT_TRUE(explanation.candidates.empty());
}

TEST(Selector, TellsWhatTheTableRefusesInItsOwnWords) {
  Candidates candidates;
  candidates.add("a", "mpi", no("whatever"));
  Selector selector = candidates.selector();
  const BufferView small(values, 8, DataType::float8_e5m2);
  const std::string text =
      refusal_of([&] { selector.pick(Request::all_reduce(small, small, ReduceOp::sum)); });
  EXPECT_THAT(text, HasSubstr("sum of float8_e5m2"));
  EXPECT_THAT(text, Not(HasSubstr("whatever")));
}

TEST(Selector, ExplainsEveryCandidateInOrder) {
  Candidates candidates;
  candidates.add("a", "mpi", always);
  candidates.add("b", "mpi_p2p", no("too short"));
  candidates.add("c", "exchange", always);
  candidates.add("d", "exchange", always);
  const Selector selector = candidates.selector("^mpi");
  const Explanation explanation = selector.explain(some_all_reduce);
  EXPECT_EQ(explanation.path, "exchange");
  EXPECT_EQ(explanation.algorithm, "all_reduce_c");
  ASSERT_EQ(explanation.candidates.size(), 4u);
  EXPECT_EQ(explanation.candidates[0].reason, "not allowed by the path setting '^mpi'");
  EXPECT_EQ(explanation.candidates[1].reason, "too short");
  const std::vector<bool> can = {false, false, true, true};
  for (std::size_t i = 0; i < can.size(); ++i) {
    EXPECT_EQ(explanation.candidates[i].can_run, can[i]) << i;
    EXPECT_EQ(explanation.candidates[i].reason.empty(), can[i]) << i;
    EXPECT_EQ(explanation.candidates[i].algorithm, std::string("all_reduce_") + "abcd"[i]);
  }
}

TEST(Selector, AsksOnceForRequestsAlike) {
  Candidates candidates;
  FakeAlgorithm& only = candidates.add("a", "mpi", always);
  Selector selector = candidates.selector();
  for (int i = 0; i < 100; ++i) selector.pick(some_all_reduce);
  EXPECT_EQ(only.asked, 1);
}

TEST(Selector, AsksEveryTimeWhereThereIsTooMuchToRemember) {
  Candidates candidates;
  FakeAlgorithm& only = candidates.add("a", "mpi", always);
  Selector selector = candidates.selector();
  const std::vector<std::size_t> counts = {3, 5};
  const Request uneven = Request::all_gather(BufferView(values).slice(0, 3),
                                             OutputBlocks::counted(BufferView(values), counts));
  const BufferView huge(values, std::size_t{1} << 32, DataType::float32);
  for (const Request& request : {uneven, Request::broadcast(huge, 0)}) {
    only.asked = 0;
    for (int i = 0; i < 10; ++i) selector.pick(request);
    EXPECT_EQ(only.asked, 10);
  }
}

/// A request of any kind; its buffers are never looked at.
Request random_request(std::mt19937& random) {
  const auto below = [&random](std::size_t limit) { return random() % limit; };
  // Few enough counts to come again, and some that lie in the upper half of what is remembered.
  const std::size_t count = below(40) * (below(4) == 0 ? (std::size_t{1} << 26) + 1 : 1);
  const auto dtype = static_cast<DataType>(below(data_type_count - 2));
  const BufferView view(values, count, dtype);
  const ConstBufferView in = view;
  const auto kind = static_cast<ReduceKind>(below(reduce_kind_count - 2));
  const ReduceOp op = ReduceOp::of(kind);
  static const std::vector<BufferView> outputs(3, BufferView(values));
  static const std::vector<ConstBufferView> inputs(3, ConstBufferView(values));
  static const std::vector<std::size_t> counts = {1, 2, 3};
  switch (below(9)) {
    case 0:
      return Request::all_reduce(in, view, op);
    case 1:
      return Request::broadcast(view, 0);
    case 2:
      return Request::reduce(in, view, 0, op);
    case 3:
      return Request::gather(
          in, below(2) == 0 ? OutputBlocks::equal(view) : OutputBlocks::list(outputs), 0);
    case 4:
      return Request::scatter(below(2) == 0 ? InputBlocks::equal(in) : InputBlocks::list(inputs),
                              view, 0);
    case 5:
      return Request::all_gather(
          in, below(2) == 0 ? OutputBlocks::equal(view) : OutputBlocks::counted(view, counts));
    case 6:
      return Request::reduce_scatter(InputBlocks::equal(in), view, op);
    case 7:
      return Request::all_to_all(InputBlocks::equal(in), OutputBlocks::equal(view));
    default:
      return Request::barrier();
  }
}

/// Depends on all that a candidate may look at; the count that tells is the one on the side that
/// every rank has.
std::size_t fingerprint(const Request& request) {
  const std::size_t count =
      request.type == OpType::scatter ? request.outputs.flat().count : request.inputs.flat().count;
  std::size_t hash = count;
  for (const std::size_t part :
       {static_cast<std::size_t>(request.type), static_cast<std::size_t>(request.op.kind()),
        static_cast<std::size_t>(request.inputs.dtype()),
        static_cast<std::size_t>(request.outputs.dtype()),
        static_cast<std::size_t>(request.inputs.layout()),
        static_cast<std::size_t>(request.outputs.layout())})
    hash = (hash ^ (hash >> 29) ^ part) * 0xbf58476d1ce4e5b9ull + 1;
  return hash ^ (hash >> 32);
}

Selector choosy_selector(std::vector<Answer>& answers) {
  Candidates candidates;
  for (std::size_t i = 0; i < 5; ++i) {
    answers.push_back([i](const Request& request) {
      const bool can = i == 4 || (fingerprint(request) >> (8 * i)) % 3 == 0;
      return can ? Verdict::yes() : Verdict::no("unlucky");
    });
    candidates.add(std::to_string(i), "mpi", answers.back());
  }
  return candidates.selector();
}

std::string first_that_can(const std::vector<Answer>& answers, const Request& request) {
  std::size_t i = 0;
  while (!answers[i](request).ok) ++i;
  return std::to_string(i);
}

TEST(Selector, RemembersOnlyWhatIsTrue) {
  std::vector<Answer> answers;
  Selector selector = choosy_selector(answers);
  std::mt19937 random(2026);
  for (int i = 0; i < 200'000; ++i) {
    const Request request = random_request(random);
    ASSERT_EQ(selector.pick(request).model().method, first_that_can(answers, request))
        << to_string(request.type) << " of " << request.inputs.flat().count << " after " << i;
    if (i % 64 != 0) continue;
    ASSERT_THAT(selector.explain(request).algorithm,
                testing::EndsWith("_" + first_that_can(answers, request)));
  }
}

TEST(Selector, RemembersOnlyWhatIsTrueForManyThreads) {
  std::vector<Answer> answers;
  Selector selector = choosy_selector(answers);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed)
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 20'000; ++i) {
        const Request request = random_request(random);
        if (selector.pick(request).model().method != first_that_can(answers, request))
          ++wrong[seed];
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace hymn::test
