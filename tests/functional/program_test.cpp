// Programs as data: what makes them faster, and whether those of all ranks match.
#include <random>

#include "base/sanitizers.hpp"
#include "hymn/capture.hpp"
#include "tests/functional/arrays.hpp"

namespace hymn::test {
namespace {

using Arrays = std::span<const Array>;

/// The programs of so many ranks, captured one after the other: nobody sends anything.
std::vector<Program> programs_of(int ranks,
                                 const std::function<void(int rank, const fc::Where& all)>& body) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  std::vector<Program> programs;
  for (int rank = 0; rank < ranks; ++rank)
    programs.push_back(
        capture([&] { body(rank, fc::Where::ranks_alone(all, "all", rank)); }).program);
  return programs;
}

Array meta(Shape shape, DataType dtype = DataType::float32) {
  return Array::meta(std::move(shape), dtype);
}

void expect_mismatch(const std::vector<Program>& programs, Words words) {
  const std::string text = find_mismatch(programs);
  for (const std::string_view word : words)
    EXPECT_NE(text.find(word), std::string::npos) << word << " is not in: " << text;
}

TEST(FindMismatch, ProgramsThatMatch) {
  EXPECT_EQ(find_mismatch(programs_of(8,
                                      [](int, const fc::Where& all) {
                                        const Array sum = fc::all_reduce(meta({8}), "sum", all);
                                        fc::wait_tensor(fc::all_gather_tensor(sum, 0, all));
                                      })),
            "");
}

TEST(FindMismatch, NamesTheTwoCalls) {
  expect_mismatch(
      programs_of(4,
                  [](int rank, const fc::Where& all) {
                    (void)fc::all_reduce(meta({4}), "sum", all);
                    if (rank == 2)
                      (void)fc::all_gather_tensor(meta({6}), 0, all);
                    else
                      (void)fc::all_reduce(meta({6}), "sum", all);
                  }),
      {"call 2 on the group 'all' [0, 1, 2, 3]", "rank 0's node 1 (all_reduce of float32 [6])",
       "rank 2's node 1 (all_gather_tensor of float32 [6])", "different collectives"});
}

TEST(FindMismatch, SaysWhatDiffers) {
  const auto differ = [](const std::function<void(int, const fc::Where&)>& body, Words words) {
    expect_mismatch(programs_of(2, body), words);
  };
  differ([](int rank, const auto& all) { (void)fc::all_reduce(meta({4 + rank}), "sum", all); },
         {"their shapes differ", "[4]", "[5]"});
  differ(
      [](int rank, const auto& all) {
        (void)fc::all_reduce(meta({4}, rank == 0 ? DataType::int32 : DataType::int64), "sum", all);
      },
      {"their dtypes differ"});
  differ([](int rank,
            const auto& all) { (void)fc::all_reduce(meta({4}), rank == 0 ? "sum" : "max", all); },
         {"reduce in different ways"});
  differ([](int rank, const auto& all) { (void)fc::broadcast(meta({4}), rank, all); },
         {"their roots differ"});
  differ(
      [](int rank, const auto& all) { (void)fc::permute_tensor(meta({4}), {rank, 1 - rank}, all); },
      {"their destinations differ"});
  differ([](int rank, const auto& all) { (void)fc::all_gather_tensor(meta({4, 4}), rank, all); },
         {"their dimensions differ"});
  differ(
      [](int rank, const auto& all) {
        const fc::Splits in(std::vector<std::int64_t>{1, 2});
        const fc::Splits out(std::vector<std::int64_t>{1, 1 + rank});
        (void)fc::all_to_all_single(meta({3}), rank == 0 ? out : in, in, all);
      },
      {"rank 0 sends 2 to rank 1, which takes 1"});
}

TEST(FindMismatch, KnowsSplitsThatFit) {
  EXPECT_EQ(
      find_mismatch(programs_of(3,
                                [](int rank, const fc::Where& all) {
                                  const fc::Splits in(std::vector<std::int64_t>{1, 2, 3});
                                  const fc::Splits out(std::vector<std::int64_t>(3, rank + 1));
                                  (void)fc::all_to_all_single(meta({6, 2}), out, in, all);
                                })),
      "");
}

TEST(FindMismatch, NamesWhoDoesNotCome) {
  expect_mismatch(programs_of(3,
                              [](int rank, const fc::Where& all) {
                                fc::wait_tensor(fc::all_reduce(meta({4}), "sum", all));
                                if (rank != 1)
                                  fc::wait_tensor(fc::all_reduce(meta({4}), "sum", all));
                              }),
                  {"rank 0 waits", "call 2", "for rank 1, which never makes that call"});
  std::vector<Program> programs = programs_of(
      3, [](int, const fc::Where& all) { (void)fc::all_reduce(meta({4}), "sum", all); });
  programs.back() = programs_of(1, [](int, const fc::Where&) {})[0];  // makes no calls
  EXPECT_EQ(programs.back().rank, -1);
  expect_mismatch(programs, {"no program of rank 2"});
}

/// Two calls on two groups of the same ranks, which rank 1 makes in the other order.
std::vector<Program> crossed(bool waits) {
  return programs_of(2, [&](int rank, const fc::Where&) {
    std::vector<std::string> tags{"a", "b"};
    if (rank == 1) std::swap(tags[0], tags[1]);
    for (const std::string& tag : tags) {
      const Array sum = fc::all_reduce(meta({4}), "sum", fc::Where::ranks_alone({0, 1}, tag, rank));
      if (waits) fc::wait_tensor(sum);
    }
  });
}

TEST(FindMismatch, FindsACircleBetweenGroups) {
  expect_mismatch(crossed(true), {"in a circle", "rank 0 waits in node 0", "the group 'a' [0, 1]",
                                  "rank 1 waits in node 0", "the group 'b' [0, 1]"});
  EXPECT_EQ(find_mismatch(crossed(false)), "");  // each is started before any is waited for
}

TEST(FindMismatch, FindsACircleOfThree) {
  const auto programs = programs_of(3, [](int rank, const fc::Where&) {
    const int left = (rank + 2) % 3;
    const int right = (rank + 1) % 3;
    for (const int other : {right, left}) {
      const std::vector<int> pair{std::min(rank, other), std::max(rank, other)};
      fc::wait_tensor(fc::all_reduce(meta({1}), "sum", fc::Where::ranks_alone(pair, "pair", rank)));
    }
  });
  expect_mismatch(programs, {"in a circle", "rank 0", "rank 1", "rank 2"});
}

// --- Faster, with the same bits.

Array doubled(const Array& array) {
  return fc::apply("double", {array}, array.spec(), [](Arrays in, const Array& out) {
    const std::vector<float> elements = elements_of<float>(in[0]);
    for (std::size_t i = 0; i < elements.size(); ++i)
      out.mutable_values<float>()[i] = 2 * elements[i];
  });
}

/// Three sums, each waited for at once, and twice; then their doubles, gathered.
std::vector<Array> wasteful(Arrays inputs, const fc::Where& where) {
  std::vector<Array> results;
  for (const Array& input : inputs) {
    const Array sum = fc::all_reduce(input, "sum", where);
    fc::wait_tensor(sum);
    fc::wait_tensor(sum);
    results.push_back(doubled(sum));
  }
  for (Array& result : results) {
    result = fc::all_gather_tensor(result, 0, where);
    fc::wait_tensor(result);
  }
  return results;
}

std::string kinds_of(const Program& program) {
  std::string kinds;
  for (const ProgramNode& node : program.nodes) kinds += name_of(node) + "\n";
  return kinds;
}

RANK_TEST(Optimised, WaitsLess) {
  std::vector<Array> inputs;
  for (int i = 0; i < 3; ++i)
    inputs.push_back(counting({5}, 0.1f * static_cast<float>(i + world.rank())));
  Captured captured =
      capture(inputs, [&](Arrays arrays) { return wasteful(arrays, world.group()); });
  const std::vector<Array> expected = replay(captured, world, inputs);
  EXPECT_EQ(captured.program.count("wait_tensor"), 6u);
  captured.program = optimised(captured.program, {.groups_are_reproducible = true});
  EXPECT_EQ(kinds_of(captured.program),
            "all_reduce_coalesced\nwait_tensor\nstep 'double'\nstep 'double'\nstep 'double'\n"
            "all_gather_into_tensor_coalesced\nwait_tensor\n");
  const std::vector<Array> results = replay(captured, world, inputs);
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(elements_of<float>(results[i]), elements_of<float>(expected[i]));
}

TEST(Optimised, StartsBeforeItWaits) {
  const fc::Where where = fc::Where::ranks_alone({0, 1, 2});
  const std::vector<Array> inputs{meta({4}), meta({4}), meta({4})};
  const Program program = capture(inputs, [&](Arrays arrays) {
                            std::vector<Array> results;
                            results.push_back(doubled(fc::all_reduce(arrays[0], "sum", where)));
                            results.push_back(doubled(arrays[2]));
                            results.push_back(fc::all_gather_tensor(arrays[1], 0, where));
                            return results;
                          }).program;
  EXPECT_EQ(kinds_of(program),
            "all_reduce\nwait_tensor\nstep 'double'\nstep 'double'\nall_gather_tensor\n");
  EXPECT_EQ(kinds_of(optimised(program)),
            "all_reduce\nall_gather_tensor\nstep 'double'\nwait_tensor\nstep 'double'\n"
            "wait_tensor\n");
}

TEST(Optimised, KeepsTheOrderOfSumsThatRound) {
  const auto coalesced = [](int ranks, DataType dtype, const char* reduction) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    const fc::Where where = fc::Where::ranks_alone(all);
    const Program program = capture([&] {
                              for (int i = 0; i < 2; ++i)
                                (void)fc::all_reduce(meta({4}, dtype), reduction, where);
                            }).program;
    return optimised(program).count("all_reduce_coalesced") == 1;
  };
  EXPECT_TRUE(coalesced(2, DataType::float32, "sum"));
  EXPECT_FALSE(coalesced(3, DataType::float32, "sum"));
  EXPECT_FALSE(coalesced(3, DataType::complex64, "product"));
  EXPECT_TRUE(coalesced(3, DataType::float32, "max"));
  EXPECT_TRUE(coalesced(3, DataType::int32, "sum"));
}

TEST(Optimised, OfAllRanksOrNone) {
  // Rank 1 has something between the two, which keeps them apart there alone.
  const auto programs = programs_of(2, [](int rank, const fc::Where& all) {
    const Array sum = fc::all_reduce(meta({4}), "sum", all);
    (void)fc::all_reduce(rank == 1 ? doubled(sum) : meta({4}), "sum", all);
  });
  EXPECT_EQ(optimised(programs[0]).count("all_reduce_coalesced"), 1u);
  const std::vector<Program> together = optimised(programs);
  EXPECT_EQ(together[0].to_json(), programs[0].to_json());
  EXPECT_EQ(find_mismatch(together), "");
}

// --- Programs from files may be anything.

TEST(ProgramFromJson, RefusesWhatIsNone) {
  const Program program = programs_of(2, [](int, const fc::Where& all) {
    const Array sum = fc::all_reduce(meta({4, 2}), "sum", all);
    (void)fc::all_gather_tensor(sum.transpose(0, 1), 0, all);
  })[1];
  const std::string text = program.to_json();
  EXPECT_EQ(Program::from_json(text).to_json(), text);
  const auto refused = [&](const std::string& from, const std::string& to, Words words) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos) << from << " is not in " << text;
    changed.replace(at, from.size(), to);
    expect_error(ErrorKind::usage, [&] { (void)Program::from_json(changed); }, words);
  };
  refused("{", "[", {"parse error"});
  refused("\"hymn_program\": 1", "\"hymn_program\": 2", {"another version"});
  refused("\"rank\": 1", "\"rank\": 7", {"rank 7 is not in the group"});
  refused("float32", "float31", {"no dtype 'float31'"});
  refused("\"all_reduce\"", "\"all_produce\"", {"no operation 'all_produce'"});
  refused("\"sum\"", "\"custom\"", {"own cannot be data"});
  refused("\"group\": 0", "\"group\": 1", {"node 0", "no group"});
  refused("\"offset\": 0", "\"offset\": 1", {"reaches out"});
  refused("\"offset\": 0", "\"offset\": -9223372036854775808", {"reaches out"});
  refused("\"kind\": \"view\"", "\"kind\": \"collective\"", {"operation"});
}

/// Something else in one place: a letter, a number, or a part that is gone or there twice.
std::string spoilt(std::string text, std::mt19937_64& random) {
  static const std::string numbers[] = {"-1",
                                        "0",
                                        "1",
                                        "7",
                                        "1e3",
                                        "null",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "4398046511104",
                                        "[]"};
  const std::size_t at = random() % text.size();
  const std::size_t digit = text.find_first_of("0123456789", at);
  switch (random() % 4) {
    case 0:
      text[at] = static_cast<char>(random());
      break;
    case 1:
      text.erase(at, random() % 40);
      break;
    case 2:
      text.insert(at, text.substr(random() % text.size(), random() % 40));
      break;
    case 3:
      if (digit != std::string::npos) text.replace(digit, 1, numbers[random() % 10]);
      break;
  }
  return text;
}

TEST(ProgramFromJson, TakesNothingOnTrust) {
  const auto programs = programs_of(2, [](int, const fc::Where& all) {
    const Array sum = fc::all_reduce(meta({4, 2}), "sum", all);
    const Array rows = fc::all_to_all_single(sum.transpose(0, 1).contiguous(), {}, {}, all);
    (void)fc::permute_tensor(doubled(rows.narrow(1, 1, 2)), {1, 0}, all);
    (void)fc::reduce_scatter_tensor(fc::all_gather_tensor(rows, 1, all), "avg", -1, all);
  });
  std::mt19937_64 random(1);
  const std::size_t tries = sanitized ? 600 : 3000;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < tries; ++i) {
    const std::string text = spoilt(programs[0].to_json(), random);
    try {
      const Program program = Program::from_json(text);
      ++taken;
      EXPECT_EQ(Program::from_json(program.to_json()).to_json(), program.to_json());
      (void)Program::from_json(optimised(program).to_json());
      (void)program.to_dot();
      (void)find_mismatch(std::vector{program, programs[1]});
    } catch (const UsageError&) {  // nothing else
    }
  }
  EXPECT_GT(taken, tries / 30);
}

}  // namespace
}  // namespace hymn::test
