// `hymn topo` as a user meets it: run as a program, judged by its output and exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/shell.hpp"
#include "topology/read_machine.hpp"

namespace hymn::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

const std::string boxes = HYMN_BOXES;

ShellOutcome topo(const std::string& arguments, const std::string& before = "") {
  return run_shell(before + " " HYMN_COMMAND " topo " + arguments + " 2>&1");
}

std::string under_mpirun(int ranks) { return HYMN_MPIRUN " -n " + std::to_string(ranks); }

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string temporary(const std::string& name) {
  return testing::TempDir() + "topo_command_test_" + name;
}

TEST(TopoCommand, ShowsThisMachine) {
  const ShellOutcome outcome = topo("");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, StartsWith("host: "));
  EXPECT_THAT(outcome.output, HasSubstr("(this host)"));
  EXPECT_THAT(outcome.output, HasSubstr("/dev/shm"));
}

TEST(TopoCommand, TellsThisMachineAsJsonThatItCanRead) {
  const ShellOutcome json = topo("--json");
  ASSERT_EQ(json.exit_code, 0);
  const std::string file = temporary("machine.json");
  std::ofstream(file) << json.output;
  const ShellOutcome again = topo("--json --xml '" + file + "'");
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(Json::parse(again.output)["cores"], Json::parse(json.output)["cores"]);
  fs::remove(file);
}

TEST(TopoCommand, ReadsTheFileThatTheVariableNames) {
  const ShellOutcome outcome = topo("", "HYMN_TOPOLOGY_FILE='" + boxes + "/pcie4.xml'");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, StartsWith("host: pcie4 "));
}

TEST(TopoCommand, ReadsTheExampleOfItsPage) {
  const std::string page = content_of(HYMN_PICTURES "/../topology.md");
  const std::string fence = "```json\n";
  const std::size_t begin = page.find(fence) + fence.size();
  const std::string file = temporary("example.json");
  std::ofstream(file) << page.substr(begin, page.find("```", begin) - begin);
  const ShellOutcome outcome = topo("--xml '" + file + "'");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, StartsWith("host: box "));
  EXPECT_THAT(outcome.output, HasSubstr("NVIDIA A40"));
  fs::remove(file);
}

TEST(TopoCommand, WritesPicturesOfOtherMachines) {
  const std::string svg = temporary("a.svg");
  const std::string png = temporary("a.png");
  const ShellOutcome outcome = topo("--xml '" + boxes + "/hybrid_cube8.xml:4' --ranks 8 --svg '" +
                                    svg + "' --png '" + png + "'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output, "");
  EXPECT_THAT(content_of(svg), HasSubstr("data-rank=\"31\""));
  EXPECT_THAT(content_of(png), StartsWith("\x89PNG"));
  fs::remove(svg);
  fs::remove(png);
}

TEST(TopoCommand, PicturesMayGoToTheOutput) {
  const ShellOutcome outcome = topo("--synthetic 'pack:2 core:4 pu:2' --ranks 4 --svg -");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, StartsWith("<?xml"));
  EXPECT_THAT(outcome.output, testing::EndsWith("</svg>\n"));
}

TEST(TopoCommand, RefusesBadArguments) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"--xml a --synthetic b", "--synthetic"},
      {"--xml '" + boxes + "/pcie4.xml:0'", "number of hosts"},
      {"--xml /no/such/file", "/no/such/file"},
      {"--xml '" + boxes + "/broken/truncated.xml'", "truncated.xml"},
      {"--synthetic 'rubbish'", "rubbish"},
      {"--ranks -1", "--ranks"},
      {"--ranks 5000", "--ranks"},
      {"--ranks many", "--ranks"},
      {"--hosts 0", "--hosts"},
      {"--hosts 65536 --ranks 4096", "65536"},
      {"--json --svg -", "standard output"},
      {"--svg - --png -", "standard output"},
      {"--nonsense", "--nonsense"},
  };
  for (const auto& [arguments, expected] : cases) {
    SCOPED_TRACE("hymn topo " + arguments);
    const ShellOutcome outcome = topo(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.output, HasSubstr(expected));
  }
}

TEST(TopoCommand, SaysWhatItCannotWrite) {
  for (const char* option : {"--svg", "--png"}) {
    const ShellOutcome outcome = topo(std::string(option) + " /nowhere/at/all");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.output, HasSubstr("/nowhere/at/all"));
  }
}

TEST(TopoCommand, ShowsTheJobThatRuns) {
  const ShellOutcome text = topo("", under_mpirun(3));
  EXPECT_EQ(text.exit_code, 0) << text.output;
  EXPECT_THAT(text.output, StartsWith("1 host, 3 ranks\n"));
  const ShellOutcome json = topo("--json", under_mpirun(3));
  ASSERT_EQ(json.exit_code, 0) << json.output;
  const Json job = Json::parse(json.output, nullptr, false);
  ASSERT_TRUE(job.is_object()) << json.output;
  EXPECT_EQ(job["ranks"], 3);
  ASSERT_EQ(job["places"].size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(job["places"][static_cast<std::size_t>(rank)]["rank"], rank);
    EXPECT_EQ(job["places"][static_cast<std::size_t>(rank)]["host"], 0);
  }
}

TEST(TopoCommand, AJobWhosePictureCannotBeWrittenEnds) {
  const ShellOutcome outcome = topo("--svg /nowhere/at/all", under_mpirun(2));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("/nowhere/at/all"));
}

TEST(TopoCommand, OnlyOneRankOfAJobSpeaks) {
  const ShellOutcome imagined =
      topo("--xml '" + boxes + "/pcie4.xml' --ranks 4 --svg -", under_mpirun(2));
  EXPECT_EQ(imagined.exit_code, 0);
  EXPECT_EQ(imagined.output.find("</svg>"), imagined.output.rfind("</svg>"));
  const ShellOutcome bad = topo("--xml /no/such/file", under_mpirun(2));
  EXPECT_NE(bad.exit_code, 0);
  EXPECT_NE(bad.output.find("/no/such/file"), std::string::npos);
  EXPECT_EQ(bad.output.find("hymn: "), bad.output.rfind("hymn: ")) << bad.output;
}

}  // namespace
}  // namespace hymn::test
