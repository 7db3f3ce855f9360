// `hymn check` as a user meets it: run as a program, judged by its output and exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "hymn/capture.hpp"
#include "tests/support/shell.hpp"
#include "tests/support/temporary_folder.hpp"

namespace hymn::test {
namespace {

namespace fc = hymn::functional;
using testing::HasSubstr;
using testing::StartsWith;

class CheckCommand : public testing::Test {
 protected:
  /// The program of one of two ranks, which sums so many elements.
  void write(int rank, std::int64_t elements) const {
    const auto where = fc::Where::ranks_alone({0, 1}, "both", rank);
    const Captured captured = capture(
        [&] { (void)fc::all_reduce(Array::meta({elements}, DataType::float32), "sum", where); });
    write("rank" + std::to_string(rank) + ".json", captured.program.to_json());
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
  }
  ShellOutcome check(const std::string& arguments) const {
    return run_shell("cd '" + folder_.path().string() + "' && " HYMN_COMMAND " check " + arguments +
                     " 2>&1");
  }

  TemporaryFolder folder_;
};

TEST_F(CheckCommand, SaysThatProgramsMatch) {
  write(0, 4);
  write(1, 4);
  const ShellOutcome outcome = check("rank*.json");
  EXPECT_EQ(outcome.output, "2 programs match: 2 calls on 1 group\n");
  EXPECT_EQ(outcome.exit_code, 0);
}

TEST_F(CheckCommand, NamesTheCallsThatDoNot) {
  write(0, 4);
  write(1, 5);
  const ShellOutcome outcome = check("rank0.json rank1.json");
  EXPECT_EQ(outcome.output,
            "call 1 on the group 'both' [0, 1]: rank 0's node 0 (all_reduce of float32 [4]) does "
            "not match rank 1's node 0 (all_reduce of float32 [5]): their shapes differ\n");
  EXPECT_EQ(outcome.exit_code, 1);
}

TEST_F(CheckCommand, DrawsAProgram) {
  write(0, 4);
  write(1, 4);
  const ShellOutcome outcome = check("rank*.json --dot -");
  EXPECT_THAT(outcome.output, StartsWith("digraph program {"));
  EXPECT_EQ(outcome.exit_code, 0);
}

TEST_F(CheckCommand, RefusesWhatIsNoProgram) {
  write(0, 4);
  write("other.json", "{\"hymn_program\": 1}");
  for (const auto& [arguments, words] : {std::pair{"", "required"},
                                         {"nothing.json", "cannot read nothing.json"},
                                         {"other.json", "other.json is no captured program"},
                                         {"rank0.json rank0.json", "two programs are of rank 0"}}) {
    const ShellOutcome outcome = check(arguments);
    EXPECT_THAT(outcome.output, HasSubstr(words));
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
  }
  EXPECT_EQ(check("rank0.json").exit_code, 1);  // where is rank 1?
}

}  // namespace
}  // namespace hymn::test
