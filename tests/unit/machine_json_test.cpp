// Machines as JSON: what is written is read back as it was; what is malformed is told by its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/sanitizers.hpp"
#include "hymn/error.hpp"
#include "tests/support/machine_maker.hpp"
#include "topology/read_machine.hpp"

namespace hymn::test {
namespace {

using testing::HasSubstr;

TEST(MachineJson, RandomMachinesComeBackAsTheyWere) {
  for (unsigned seed = 0; seed < (sanitized ? 60 : 300); ++seed) {
    const Machine machine = MachineMaker(seed).make();
    const std::string text = to_json(machine);
    ASSERT_EQ(machine_from_json(text, "box"), machine) << "seed " << seed << "\n" << text;
    ASSERT_EQ(to_json(machine_from_json(text, "box")), text) << "seed " << seed;
  }
}

TEST(MachineJson, BoxesComeBackAsTheyWere) {
  for (const char* name : {"cpu_2x2.xml", "hybrid_cube8.xml", "no_p2p4.json", "nvswitch8.xml",
                           "one_gpu.xml", "pcie4.xml"}) {
    const Machine machine = read_machine_file(std::string(HYMN_BOXES "/") + name);
    EXPECT_EQ(machine_from_json(to_json(machine), name), machine) << name;
  }
}

TEST(MachineJson, ThisMachineComesBackAsItWas) {
  const Machine machine = read_this_machine();
  EXPECT_EQ(machine_from_json(to_json(machine), "this host"), machine);
}

TEST(MachineJson, WhatIsNotKnownIsLeftOut) {
  Machine machine;
  machine.cpus = machine.allowed_cpus = CpuSet::range(0, 3);
  EXPECT_EQ(to_json(machine), R"({
  "hymn_machine": 1,
  "cpus": "0-3",
  "allowed_cpus": "0-3"
}
)");
}

TEST(MachineJson, EachObjectIsOneLine) {
  Machine machine;
  machine.cpus = machine.allowed_cpus = CpuSet::range(0, 1);
  machine.packages = {{0, CpuSet::range(0, 0), "X"}, {1, CpuSet::range(1, 1), ""}};
  EXPECT_THAT(to_json(machine), HasSubstr(R"(  "packages": [
    {"os_index":0,"cpus":"0","model":"X"},
    {"os_index":1,"cpus":"1"}
  ])"));
}

TEST(MachineJson, TextThatIsNotUnicodeIsWrittenAllTheSame) {
  Machine machine;
  machine.cpus = machine.allowed_cpus = CpuSet::range(0, 0);
  machine.name = "box\xff";
  EXPECT_EQ(machine_from_json(to_json(machine), "box").name, "box\ufffd");
}

TEST(MachineJson, MachinesThatContradictThemselvesAreNotWritten) {
  Machine machine;
  machine.cpus = machine.allowed_cpus = CpuSet::range(0, 0);
  machine.nics.emplace_back();
  for (const double bandwidth :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), -1.0}) {
    machine.nics[0].bandwidth = bandwidth;
    EXPECT_THROW(to_json(machine), UsageError) << bandwidth;
  }
}

TEST(MachineJson, LinksThatAreNotNamedAreUnknown) {
  const Machine machine = machine_from_json(R"({"hymn_machine":1,"cpus":"0","allowed_cpus":"0",
    "gpus":[{"uuid":"a"},{"uuid":"b"}]})",
                                            "box");
  ASSERT_EQ(machine.gpu_links.size(), 4u);
  EXPECT_EQ(machine.link(0, 0).kind, GpuLinkKind::self);
  EXPECT_EQ(machine.link(0, 1), GpuLink{});
}

/// The text of the error that `json` gives; empty when there is none.
std::string error_of(const std::string& json) {
  try {
    machine_from_json(json, "box.json");
  } catch (const ConfigError& error) {
    return error.problem();
  }
  return "";
}

/// A machine that is right but for what is added to its end.
std::string with(const std::string& fields) {
  return R"({"hymn_machine":1,"cpus":"0-3","allowed_cpus":"0-3",)" + fields + "}";
}

struct Malformed {
  std::string json;
  std::vector<std::string> told;
};

TEST(MachineJson, MalformedTextIsToldByItsPlaceAndWhatWasExpected) {
  const std::vector<Malformed> cases = {
      {"", {"not JSON"}},
      {"{", {"not JSON", "line 1"}},
      {"[]", {"the top", "an object", "a list"}},
      {"7", {"the top", "an object", "7"}},
      {"{}", {"/hymn_machine", "expected 1", "nothing"}},
      {R"({"hymn_machine":2})", {"/hymn_machine", "expected 1", "found 2"}},
      {R"({"hymn_machine":"1"})", {"/hymn_machine", "whole number", "\"1\""}},
      {R"({"hymn_machine":1})", {"no CPUs"}},
      {with(R"("gpu":[])"), {"the top", "only the keys", "gpus", "not \"gpu\""}},
      {with(R"("packages":{})"), {"/packages", "a list", "an object"}},
      {with(R"("packages":[{"cpus":"0"},3])"), {"/packages/1", "an object", "3"}},
      {with(R"("packages":[{"cpus":"3-0"}])"), {"/packages/0/cpus", "list of CPUs", "\"3-0\""}},
      {with(R"("packages":[{"os_index":-2}])"), {"/packages/0/os_index", "-1 to", "-2"}},
      {with(R"("cores":[{"os_index":2147483648}])"), {"/cores/0/os_index", "2147483648"}},
      {with(R"("cores":[{"os_index":1.5}])"), {"/cores/0/os_index", "whole number", "1.5"}},
      {with(R"("cores":[{"cpus":"0","package":4}])"), {"core 0", "package 4"}},
      {with(R"("memory":{"total_bytes":-1})"), {"/memory/total_bytes", "from 0", "-1"}},
      {with(R"("memory":{"total_bytes":99999999999999999999})"), {"/memory/total_bytes"}},
      {with(R"("memory":{"total_bytes":1e999})"), {"not JSON", "1e999"}},
      {with(R"("nics":[{"bytes_per_second":-1}])"), {"/nics/0/bytes_per_second", "negative"}},
      {with(R"("nics":[{"bytes_per_second":null}])"), {"/nics/0/bytes_per_second", "null"}},
      {with(R"("nics":[{"pci":"18:00"}])"), {"/nics/0/pci", "PCI address", "18:00"}},
      {with(R"("gpus":[{"name":7}])"), {"/gpus/0/name", "a string", "7"}},
      {with(R"("gpus":[{"uuid":"x"},{"uuid":"x"}])"), {"GPUs 0 and 1"}},
      {with(R"("gpu_links":[{"from":0,"to":1}])"), {"/gpu_links/0", "0 GPUs"}},
      {with(R"("gpus":[{},{}],"gpu_links":[{"from":0,"to":1,"kind":"fast"}])"),
       {"/gpu_links/0/kind", "nvswitch", "fast"}},
      {with(R"("gpus":[{},{}],"gpu_links":[{"from":0,"to":1,"kind":"nvlink"}])"), {"nvlink"}},
      {with(R"("gpus":[{},{}],"gpu_links":[{"from":0,"to":1},{"from":0,"to":1}])"),
       {"/gpu_links/1", "one link from 0 to 1"}},
      {with(R"("gpus":[{},{}],"gpu_links":[{"from":0,"to":1,"peer_access":1}])"),
       {"/gpu_links/0/peer_access", "true or false"}},
      {with("\"name\":\"\xff\""), {"not JSON", "UTF-8"}},
  };
  for (const auto& [json, told] : cases) {
    const std::string error = error_of(json);
    EXPECT_THAT(error, testing::StartsWith("box.json: ")) << json;
    for (const std::string& part : told) EXPECT_THAT(error, HasSubstr(part)) << json;
  }
}

TEST(MachineJson, TooMuchIsRefused) {
  EXPECT_THAT(error_of(std::string(1 << 20, '[')), HasSubstr("levels deep"));
  EXPECT_THAT(error_of(with("\"name\":\"" + std::string(17 << 20, 'x') + '"')),
              HasSubstr("too many"));
  std::string gpus = "\"gpus\":[{}";
  for (int i = 1; i < 1025; ++i) gpus += ",{}";
  EXPECT_THAT(error_of(with(gpus + "]")), HasSubstr("at most 1024"));
}

}  // namespace
}  // namespace hymn::test
