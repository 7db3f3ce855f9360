// `hymn explain` on machines that are not here: what it would take, and why not another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/byte_units.hpp"
#include "tests/support/shell.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

const std::string explain_command = HYMN_COMMAND " explain ";
const std::string boxes = HYMN_BOXES "/";

/// What the command says for one job.
class Plan {
 public:
  explicit Plan(const std::string& arguments, const std::string& environment = "") {
    const ShellOutcome outcome =
        run_shell(environment + explain_command + arguments + " --json 2>&1");
    EXPECT_EQ(outcome.exit_code, 0) << arguments << outcome.output;
    json_ = Json::parse(outcome.output, nullptr, false);
    EXPECT_TRUE(json_.is_object()) << outcome.output;
  }

  const Json& json() const { return json_; }
  std::string planned(std::size_t bytes) const { return algorithm(bytes, "planned"); }
  std::string build(std::size_t bytes) const { return algorithm(bytes, "build"); }
  std::string reason(std::size_t bytes, const std::string& algorithm) const {
    return of_candidate(bytes, algorithm, "reason", "it can run");
  }
  std::string held_back(std::size_t bytes, const std::string& algorithm) const {
    return of_candidate(bytes, algorithm, "held_back", "by nothing");
  }

 private:
  std::string of_candidate(std::size_t bytes, const std::string& algorithm, const char* field,
                           const std::string& otherwise) const {
    for (const Json& candidate : range(bytes)["candidates"])
      if (candidate["algorithm"] == algorithm) return candidate.value(field, otherwise);
    return "there is no " + algorithm;
  }
  const Json& range(std::size_t bytes) const {
    for (const Json& range : json_["ranges"])
      if (range["first_bytes"] <= bytes && bytes <= range["last_bytes"]) return range;
    ADD_FAILURE() << "nothing is said of " << bytes << " bytes";
    return json_["ranges"][0];
  }
  std::string algorithm(std::size_t bytes, const char* which) const {
    const Json& choice = range(bytes)[which];
    return choice.is_null() ? "nothing" : choice["algorithm"].get<std::string>();
  }
  Json json_;
};

Plan all_reduce_on_gpus(const std::string& arguments, const std::string& environment = "") {
  return Plan("all_reduce --dtype bfloat16 --gpus --topo " + boxes + arguments, environment);
}

TEST(HymnExplain, SwitchedGpus) {
  const Plan plan = all_reduce_on_gpus("nvswitch8.xml");
  EXPECT_EQ(plan.json()["ranks"], 8);
  EXPECT_EQ(plan.planned(8), "all_reduce_one_shot");
  EXPECT_EQ(plan.planned(4 * KiB), "all_reduce_one_shot");
  EXPECT_EQ(plan.planned(512 * KiB), "all_reduce_two_shot");
  EXPECT_EQ(plan.planned(8 * MiB), "all_reduce_two_shot");
  EXPECT_EQ(plan.planned(1024 * MiB), "all_reduce_nccl");
  EXPECT_EQ(plan.build(4 * KiB), "all_reduce_nccl");
  EXPECT_EQ(plan.reason(8 * MiB, "all_reduce_one_shot"),
            "it is larger than the 4194304 bytes of a staging buffer");
  EXPECT_EQ(plan.reason(4 * KiB, "all_reduce_mpi"), "the buffers are in device memory");
}

TEST(HymnExplain, BarriersOnStreamsHaveNoBuffers) {
  const Plan plan("barrier --gpus --topo " + boxes + "nvswitch8.xml");
  EXPECT_EQ(plan.reason(0, "barrier_mpi"), "it is ordered by a stream");
}

TEST(HymnExplain, PeerMemoryIsForWhoNamesItOrHasMeasuredIt) {
  const Plan plan = all_reduce_on_gpus("nvswitch8.xml");
  EXPECT_EQ(plan.held_back(4 * KiB, "all_reduce_one_shot"),
            "it has not been measured here: run `hymn tune --memory device --dtype bfloat16` on 8 "
            "ranks, or name cuda_p2p in HYMN_PATH");
  EXPECT_EQ(plan.held_back(4 * KiB, "all_reduce_nccl"), "by nothing");
  const Plan named = all_reduce_on_gpus("nvswitch8.xml", "HYMN_PATH=cuda_p2p,nccl ");
  EXPECT_EQ(named.held_back(4 * KiB, "all_reduce_one_shot"), "by nothing");
  EXPECT_EQ(named.planned(4 * KiB), "all_reduce_one_shot");
}

TEST(HymnExplain, PeerMemoryByTheRulesOfC10d) {
  const std::string c10d = "HYMN_P2P_COMPAT=c10d ";
  const Plan plan = all_reduce_on_gpus("nvswitch8.xml", c10d);
  EXPECT_EQ(plan.planned(4 * KiB), "all_reduce_one_shot");
  EXPECT_EQ(plan.planned(512 * KiB), "all_reduce_two_shot");
  EXPECT_EQ(plan.held_back(512 * KiB, "all_reduce_one_shot"),
            "HYMN_P2P_COMPAT=c10d: more than 262144 bytes take two shots");
  EXPECT_EQ(plan.held_back(16 * MiB, "all_reduce_two_shot"),
            "HYMN_P2P_COMPAT=c10d: at most 10485760 bytes");
  EXPECT_EQ(plan.build(16 * MiB), "all_reduce_nccl");
  const Plan other = all_reduce_on_gpus("nvswitch8.xml --op avg", c10d);
  EXPECT_EQ(other.build(4 * KiB), "all_reduce_nccl");
  EXPECT_THAT(other.held_back(4 * KiB, "all_reduce_one_shot"), HasSubstr("with sum"));
}

TEST(HymnExplain, HybridCube) {
  const Plan plan = all_reduce_on_gpus("hybrid_cube8.xml");
  EXPECT_EQ(plan.planned(4 * KiB), "all_reduce_nccl");
  EXPECT_EQ(plan.planned(64 * MiB), "all_reduce_nccl");
  EXPECT_THAT(plan.reason(4 * KiB, "all_reduce_one_shot"), HasSubstr("between packages"));
}

TEST(HymnExplain, GpusOnPcie) {
  const Plan plan = all_reduce_on_gpus("pcie4.xml");
  EXPECT_EQ(plan.planned(4 * KiB), "all_reduce_nccl");
  EXPECT_THAT(plan.reason(4 * KiB, "all_reduce_two_shot"), HasSubstr("between packages"));
  // Two ranks get GPUs of different packages or the same one: either way nobody is left out.
  EXPECT_NE(all_reduce_on_gpus("pcie4.xml --ranks 2").planned(4 * KiB), "all_reduce_staged");
}

TEST(HymnExplain, GpusWithoutPeerAccess) {
  const Plan plan = all_reduce_on_gpus("no_p2p4.json");
  EXPECT_EQ(plan.planned(4 * KiB), "all_reduce_nccl");
  EXPECT_EQ(plan.reason(4 * KiB, "all_reduce_one_shot"), "some pairs of GPUs have no peer access");
}

TEST(HymnExplain, RanksThatShareAGpu) {
  const Plan plan = all_reduce_on_gpus("one_gpu.xml --ranks 2");
  EXPECT_EQ(plan.planned(4 * KiB), "all_reduce_staged");
  EXPECT_EQ(plan.reason(4 * KiB, "all_reduce_nccl"), "2 ranks share one GPU, which NCCL refuses");
  EXPECT_EQ(plan.reason(4 * KiB, "all_reduce_one_shot"),
            "2 ranks share one GPU, where processes take turns");
  EXPECT_EQ(all_reduce_on_gpus("one_gpu.xml --ranks 2 --threads").planned(4 * KiB),
            "all_reduce_one_shot");
}

TEST(HymnExplain, RanksWithoutGpu) {
  const Plan plan = all_reduce_on_gpus("cpu_2x2.xml --ranks 4");
  EXPECT_EQ(plan.planned(4 * KiB), "all_reduce_staged");
  EXPECT_EQ(plan.reason(4 * KiB, "all_reduce_nccl"), "4 of 4 ranks have no GPU");
}

TEST(HymnExplain, GpusOfSeveralHosts) {
  const Plan plan = all_reduce_on_gpus("nvswitch8.xml:2");
  EXPECT_EQ(plan.json()["ranks"], 16);
  EXPECT_EQ(plan.json()["hosts"], 2);
  EXPECT_EQ(plan.planned(4 * KiB), "all_reduce_nccl");
  EXPECT_EQ(plan.reason(4 * KiB, "all_reduce_one_shot"), "the ranks are on 2 hosts");
  const std::string hierarchy = "all_reduce_hierarchical_nccl";
  EXPECT_EQ(plan.planned(64 * MiB), hierarchy);
  EXPECT_EQ(plan.build(64 * MiB), "all_reduce_nccl");
  EXPECT_THAT(plan.held_back(64 * MiB, hierarchy), HasSubstr("on 16 ranks, or name cuda_p2p"));
  EXPECT_EQ(all_reduce_on_gpus("nvswitch8.xml").reason(4 * KiB, hierarchy),
            "all ranks are on one host");
  EXPECT_THAT(all_reduce_on_gpus("no_p2p4.json:2").reason(4 * KiB, hierarchy),
              HasSubstr("no peer access"));
  EXPECT_THAT(all_reduce_on_gpus("nvswitch8.xml:2 --ranks 15").reason(4 * KiB, hierarchy),
              HasSubstr("different numbers of ranks: 7 to 8"));
}

TEST(HymnExplain, OtherTypesAndOperationsOnGpus) {
  const std::string box = " --gpus --topo " + boxes + "nvswitch8.xml";
  EXPECT_EQ(Plan("all_reduce --dtype int64" + box).planned(4 * KiB), "all_reduce_one_shot");
  const Plan largest("all_reduce --dtype int64 --op max" + box);
  EXPECT_EQ(largest.planned(4 * KiB), "all_reduce_nccl");
  EXPECT_EQ(largest.reason(4 * KiB, "all_reduce_one_shot"), "there is no kernel for max of int64");
  EXPECT_EQ(Plan("all_reduce --dtype bfloat16 --op avg" + box).planned(4 * KiB),
            "all_reduce_one_shot");
  EXPECT_EQ(Plan("all_reduce --dtype int32 --op bxor" + box).planned(4 * KiB), "all_reduce_staged");
  for (const char* const moved : {"all_gather", "reduce", "gather", "scatter"})
    EXPECT_EQ(Plan(moved + box).planned(4 * KiB), std::string(moved) + "_windows");
  const Plan barrier("barrier" + box);
  EXPECT_EQ(barrier.planned(0), "barrier_windows");
  EXPECT_EQ(barrier.build(0), "barrier_nccl");
  EXPECT_THAT(barrier.held_back(0, "barrier_windows"), HasSubstr("hymn tune --memory device"));
}

TEST(HymnExplain, HostMemory) {
  const Plan one("all_reduce --topo " + boxes + "cpu_2x2.xml");
  EXPECT_EQ(one.build(4 * KiB), "all_reduce_two_shot");
  EXPECT_EQ(one.planned(4 * KiB), "all_reduce_two_shot");
  EXPECT_EQ(one.build(64), "all_reduce_one_shot");
  EXPECT_EQ(one.reason(4 * KiB, "all_reduce_one_shot"), "the buffers are in host memory");
  const Plan four("broadcast --ranks 30 --topo " + boxes + "cpu_2x2.xml:4");
  EXPECT_EQ(four.json()["hosts"], 4);
  EXPECT_EQ(four.build(4 * KiB), "broadcast_hierarchical");
  EXPECT_EQ(four.planned(4 * KiB), "broadcast_hierarchical");
  const Plan barrier("barrier --synthetic 'pack:2 core:4 pu:1'");
  EXPECT_EQ(barrier.json()["ranks"], 8);
  EXPECT_EQ(barrier.build(0), "barrier_flags");
}

TEST(HymnExplain, ThreadsReadEachOthersMemory) {
  const Plan plan("all_reduce --threads --ranks 3");
  EXPECT_NE(plan.build(1 << 20), "all_reduce_mpi");
  EXPECT_EQ(plan.reason(1 << 20, "all_reduce_direct"), "it can run");
  EXPECT_EQ(plan.reason(1 << 20, "all_reduce_mpi"), "the ranks are threads of one process");
}

TEST(HymnExplain, TypesHaveShortNames) {
  const std::vector<std::array<std::string, 2>> names = {{"bf16", "bfloat16"},
                                                         {"half", "float16"},
                                                         {"fp32", "float32"},
                                                         {"double", "float64"},
                                                         {"i64", "int64"},
                                                         {"u8", "uint8"},
                                                         {"bool", "boolean"},
                                                         {"fp8_e4m3", "float8_e4m3fn"},
                                                         {"fp8_e5m2", "float8_e5m2"},
                                                         {"c64", "complex64"}};
  for (const auto& [name, dtype] : names)
    EXPECT_EQ(Plan("broadcast --max 1K --dtype " + name).json()["dtype"], dtype);
}

TEST(HymnExplain, EverySizeIsInOneRange) {
  const Plan plan = all_reduce_on_gpus("nvswitch8.xml --min 3 --max 1000K");
  std::size_t next = 4;
  for (const Json& range : plan.json()["ranges"]) {
    EXPECT_EQ(range["first_bytes"], next);
    next = range["last_bytes"].get<std::size_t>() * 2;
  }
  EXPECT_EQ(next, 1 * MiB);
}

TEST(HymnExplain, ASizeBetweenPowersOfTwoIsLookedAtAlone) {
  for (const auto& [sizes, expected] : {std::pair{"--min 1000 --max 1001", 1000},
                                        {"--min 5 --max 7", 4},
                                        {"--dtype float64 --max 4", 8}}) {
    const Json ranges = Plan(std::string("all_reduce ") + sizes).json()["ranges"];
    ASSERT_EQ(ranges.size(), 1u) << sizes;
    EXPECT_EQ(ranges[0]["first_bytes"], expected);
    EXPECT_EQ(ranges[0]["last_bytes"], expected);
  }
}

TEST(HymnExplain, SaysItInWords) {
  const ShellOutcome outcome =
      run_shell(explain_command + "all_reduce --gpus --topo " + boxes + "nvswitch8.xml");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* text :
       {"all_reduce of float32, sum, in the memory of GPUs", "8 ranks on 1 host", "8 GPUs in use",
        "joined by nvswitch", "4 B to 256 KiB", "this build takes  nccl (all_reduce_nccl)",
        "planned best", "cuda_p2p (all_reduce_one_shot)*: ", "not taken", "slower: ", "\n* "})
    EXPECT_THAT(outcome.output, HasSubstr(text));
}

TEST(HymnExplain, RefusesBadArguments) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"all_reduces", "unknown collective 'all_reduces'"},
      {"send_recv", "unknown collective"},
      {"all_reduce --dtype floating", "unknown dtype"},
      {"all_reduce --op add", "unknown op"},
      {"all_reduce --op band", "band of float32"},
      {"exscan --op avg", "exscan of avg: by how many ranks to divide differs"},
      {"all_reduce --ranks -2", "--ranks"},
      {"all_reduce --ranks 100000000", "at most"},
      {"all_reduce --min 8 --max 4", "min <= max"},
      {"all_reduce --min -8", "negative"},
      {"all_reduce --topo /nowhere/box.xml", "/nowhere/box.xml"},
      {"all_reduce --topo " + boxes + "nvswitch8.xml:0", "number of hosts"},
      {"all_reduce --synthetic nonsense", "nonsense"},
      {"all_reduce --topo a.xml --synthetic b", "give one of them"},
      {"all_reduce --threads --topo " + boxes + "cpu_2x2.xml:2", "one host"},
  };
  for (const auto& [arguments, expected] : cases) {
    const ShellOutcome outcome = run_shell(explain_command + arguments + " 2>&1");
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr(expected)) << arguments;
  }
}

}  // namespace
}  // namespace hymn::test
