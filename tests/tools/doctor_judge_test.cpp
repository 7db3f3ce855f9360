// Every kind of finding is provoked by facts made by hand, and is in the documentation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <regex>
#include <set>

#include "tests/tools/healthy_job.hpp"
#include "tools/doctor/judge.hpp"

namespace hymn::test {
namespace {

using testing::HasSubstr;
using Change = std::function<void(JobFacts&)>;

std::vector<Finding> judged(const Change& change) {
  JobFacts job = healthy_job();
  change(job);
  FindingList findings;
  judge(job, findings);
  return findings.sorted();
}

std::vector<Finding> bad_ones(const std::vector<Finding>& findings) {
  std::vector<Finding> bad;
  for (const Finding& finding : findings)
    if (finding.kind.severity != Severity::ok) bad.push_back(finding);
  return bad;
}

TEST(Doctor, FindsNothingInAHealthyJob) {
  const auto findings = judged([](JobFacts&) {});
  for (const Finding& bad : bad_ones(findings)) ADD_FAILURE() << bad.kind.id << ": " << bad.seen;
  std::set<std::string_view> subjects;
  for (const Finding& finding : findings) subjects.insert(finding.kind.id);
  EXPECT_EQ(subjects, (std::set<std::string_view>{"clock", "cpus", "environment", "files", "gpu",
                                                  "hymn", "limits", "memory", "mpi", "network"}));
}

struct Case {
  std::string id;
  Change change;
  std::string seen;        // what its text must tell
  std::vector<int> ranks;  // whom it concerns
  std::vector<std::string> hosts{};
};

GpuCopy& copy_of(JobFacts& job) { return job.hosts[1].copies[2]; }  // GPU 1 to 0

const std::vector<Case> cases{
    {"mpi.differs",
     [](JobFacts& j) { j.ranks[2].mpi_library = "MPICH 4.0.2"; },
     "MPICH 4.0.2 on rank 2",
     {2}},
    {"mpi.thread-level",
     [](JobFacts& j) { j.ranks[1].granted_level = ThreadLevel::funneled; },
     "level multiple, granted funneled",
     {1}},
    {"mpi.progress-thread",
     [](JobFacts& j) {
       j.ranks[1].wants_progress_thread = true;
       j.ranks[1].granted_level = ThreadLevel::serialized;
     },
     "serialized",
     {1}},
    {"hymn.settings",
     [](JobFacts& j) { j.ranks[3].settings_problem = "HYMN_TIMEOUT='soon'"; },
     "HYMN_TIMEOUT='soon'",
     {3}},
    {"hymn.differs",
     [](JobFacts& j) { j.ranks[3].hymn_version = "1.2.4"; },
     "1.2.4 on rank 3",
     {3}},
    {"hymn.world", [](JobFacts& j) { j.ranks[0].world_problem = "no peers"; }, "no peers", {0}},
    {"environment.hymn",
     [](JobFacts& j) { j.ranks[2].environment["HYMN_PATH"] = "mpi"; },
     "HYMN_PATH: 'mpi' on rank 2; not set on ranks 0-1, 3",
     {2}},
    {"environment.transport",
     [](JobFacts& j) { j.ranks[1].environment.clear(); },
     "NCCL_DEBUG: 'WARN' on ranks 0, 2-3; not set on rank 1",
     {1}},
    {"environment.rank",
     [](JobFacts& j) { j.ranks[1].environment["HYMN_GPU"] = "1"; },
     "HYMN_GPU: '1' on rank 1",
     {1}},
    {"cpus.same-core",
     [](JobFacts& j) { j.ranks[2].cpus = j.ranks[3].cpus = CpuSet::range(5, 5); },
     "2 ranks of node1 may run on 1 core only (CPUs 5); the job may use 8 cores",
     {2, 3}},
    {"cpus.oversubscribed",
     [](JobFacts& j) {
       j.hosts[1].machine.allowed_cpus = CpuSet::range(5, 5);
       j.ranks[2].cpus = j.ranks[3].cpus = CpuSet::range(5, 5);
     },
     "2 ranks of node1 may run on 1 core",
     {2, 3}},
    {"cpus.threads",
     [](JobFacts& j) {
       for (RankFacts& rank : j.ranks) rank.environment["OMP_NUM_THREADS"] = "8,2";
     },
     "start 16 OpenMP threads (OMP_NUM_THREADS) on 8 cores",
     {},
     {"node0"}},
    {"cpus.unbound",
     [](JobFacts& j) { j.ranks[0].cpus = j.ranks[1].cpus = CpuSet::range(0, 7); },
     "2 ranks may all run on the same 8 cores",
     {},
     {"node0"}},
    {"cpus.narrow",
     [](JobFacts& j) { j.ranks[1].cpus = CpuSet::range(4, 5); },
     "6 of 8 cores (CPUs 0-5 of 0-7)",
     {},
     {"node0"}},
    {"memory.segment",
     [](JobFacts& j) { j.ranks[1].segment_problem = "No space left on device"; },
     "64 MiB cannot be had: No space",
     {1}},
    {"memory.short",
     [](JobFacts& j) { j.hosts[0].machine.memory.available_bytes = 100 << 20; },
     "100 MiB can be had; 128 MiB for 2 ranks",
     {},
     {"node0"}},
    {"memory.shm",
     [](JobFacts& j) { j.hosts[1].shm_problem = "No space left on device"; },
     "a file of 16 MiB for 2 ranks cannot be had: No space",
     {},
     {"node1"}},
    {"memory.limit",
     [](JobFacts& j) { j.hosts[0].machine.memory.cgroup_max_bytes = std::uint64_t{8} << 30; },
     "memory.max is 8.0 GiB of the host's 64 GiB",
     {},
     {"node0"}},
    {"memory.huge-pages",
     [](JobFacts& j) {
       for (HostFacts& host : j.hosts) host.machine.memory.transparent_huge_pages = "never";
     },
     "never",
     {},
     {"node0", "node1"}},
    {"files.stale-fill",
     [](JobFacts& j) {
       const auto bytes = std::uint64_t{4} << 30;
       j.hosts[0].stale = {
           .count = 1, .bytes = bytes, .shm_bytes = bytes, .examples = {"/dev/shm/x"}};
     },
     "1 file of jobs that have ended, 4.0 GiB in all, /dev/shm/x",
     {},
     {"node0"}},
    {"files.stale",
     [](JobFacts& j) {
       j.hosts[0].stale = {.count = 9, .bytes = 512, .shm_bytes = 0, .examples = {"/tmp/x"}};
     },
     "9 files of jobs that have ended, 512 B in all, /tmp/x, …",
     {},
     {"node0"}},
    {"network.only-loopback",
     [](JobFacts& j) { j.hosts[1].interfaces[1].up = false; },
     "node1",
     {},
     {"node1"}},
    {"network.address-repeated",
     [](JobFacts& j) {
       for (HostFacts& host : j.hosts)
         host.interfaces.push_back({"docker0", true, false, {"172.17.0.1"}});
     },
     "172.17.0.1 (docker0) is an address of 2 hosts",
     {},
     {"node0", "node1"}},
    {"network.name-loopback",
     [](JobFacts& j) { j.hosts[0].name_addresses = {"127.0.1.1"}; },
     "127.0.1.1",
     {},
     {"node0"}},
    {"network.name-unknown",
     [](JobFacts& j) { j.hosts[0].name_addresses = {}; },
     "no address",
     {},
     {"node0"}},
    {"network.many-interfaces",
     [](JobFacts& j) { j.hosts[0].interfaces.push_back({"ib0", true, false, {"10.1.0.1"}}); },
     "eth0 10.0.0.1, ib0 10.1.0.1",
     {},
     {"node0"}},
    {"gpu.driver-old",
     [](JobFacts& j) { j.hosts[0].cuda_driver = 12080; },
     "runtime is 13.0, the driver understands 12.8",
     {},
     {"node0"}},
    {"gpu.copy-failed",
     [](JobFacts& j) { copy_of(j).problem = "CUDA_ERROR_ILLEGAL_ADDRESS"; },
     "GPU 1 to 0: CUDA_ERROR_ILLEGAL_ADDRESS",
     {},
     {"node1"}},
    {"gpu.copy-wrong", [](JobFacts& j) { copy_of(j).right = false; }, "GPU 1 to 0", {}, {"node1"}},
    {"gpu.no-peer-access",
     [](JobFacts& j) { copy_of(j).direct = false; },
     "GPU 1 to 0",
     {},
     {"node1"}},
    {"gpu.nccl-differs",
     [](JobFacts& j) { j.hosts[1].nccl = 22102; },
     "NCCL 2.21.2 on node1 (1 host(s)); NCCL 2.28.9 on node0",
     {}},
    {"gpu.shared",
     [](JobFacts& j) { j.ranks[2].used_gpu = j.ranks[3].used_gpu; },
     "2 ranks use GPU-1-of-node1 of node1",
     {2, 3}},
    {"gpu.missing",
     [](JobFacts& j) { j.ranks[1].used_gpu.clear(); },
     "3 of 4 ranks use a GPU",
     {1}},
    {"gpu.hidden",
     [](JobFacts& j) { j.ranks[0].gpus.pop_back(); },
     "GPU-1-of-node0, which rank 1 uses, is hidden",
     {0}},
    {"gpu.driver-differs",
     [](JobFacts& j) { j.hosts[1].driver_version = "570.1"; },
     "driver 570.1 on node1 (1 host(s)); driver 580.95.05 on node0",
     {}},
    {"gpu.nccl-missing",
     [](JobFacts& j) { j.hosts[1].nccl = 0; },
     "no libnccl.so.2",
     {},
     {"node1"}},
    {"limits.open-files",
     [](JobFacts& j) { j.ranks[2].limits.open_files = 255; },
     "RLIMIT_NOFILE is 255; a job of 4 ranks may need 256",
     {2}},
    {"limits.processes",
     [](JobFacts& j) { j.ranks[2].limits.processes = 100; },
     "RLIMIT_NPROC is 100",
     {2}},
    {"limits.locked-memory",
     [](JobFacts& j) {
       j.hosts[0].rdma_devices = {"mlx5_0"};
       j.ranks[1].limits.locked_memory = 8 << 20;
     },
     "RLIMIT_MEMLOCK is 8.0 MiB, and there is mlx5_0",
     {1}},
    {"clock.skew",
     [](JobFacts& j) { j.hosts[1].clock = 61; },
     "node0 and node1 are 61.0 s apart",
     {},
     {"node0", "node1"}},
    {"doctor.incomplete",
     [](JobFacts& j) { j.ranks[1].incomplete = "the GPUs: no"; },
     "the GPUs",
     {1}},
};

TEST(Doctor, FindsWhatIsWrong) {
  for (const Case& one : cases) {
    SCOPED_TRACE(one.id);
    bool is_found = false;
    for (const Finding& finding : judged(one.change)) {
      if (finding.kind.id != one.id || is_found) continue;
      is_found = true;
      EXPECT_THAT(finding.seen, HasSubstr(one.seen));
      EXPECT_EQ(finding.ranks, one.ranks);
      EXPECT_EQ(finding.hosts, one.hosts);
    }
    EXPECT_TRUE(is_found);
  }
}

TEST(Doctor, EveryKindOfFindingIsProvoked) {
  std::set<std::string_view> provoked{"launcher.mismatch", "launcher.singletons",  // launcher tests
                                      "mpi.not-started"};  // doctor_command_test.cpp
  for (const Case& one : cases) provoked.insert(one.id);
  std::set<std::string_view> kinds;
  for (const FindingKind& kind : finding_kinds()) {
    EXPECT_TRUE(kinds.insert(kind.id).second) << kind.id << " is there twice";
    EXPECT_FALSE(kind.consequence.empty()) << kind.id;
    EXPECT_FALSE(kind.remedy.empty()) << kind.id;
    EXPECT_NE(kind.severity, Severity::ok) << kind.id;
  }
  EXPECT_EQ(provoked, kinds);
}

TEST(Doctor, EveryKindOfFindingIsDocumented) {
  std::map<std::string, std::string> documented;  // severity by id
  std::ifstream page(HYMN_DOCTOR_PAGE);
  const std::regex row(R"(\| `([a-z.-]+)` \| ([a-z]+) \|.*)");
  std::smatch match;
  for (std::string line; std::getline(page, line);)
    if (std::regex_match(line, match, row)) documented[match[1]] = match[2];
  std::map<std::string, std::string> kinds;
  for (const FindingKind& kind : finding_kinds())
    kinds[std::string(kind.id)] = to_string(kind.severity);
  EXPECT_EQ(documented, kinds);
}

// What is a matter of several hosts is none on one.
TEST(Doctor, OneHostNeedsNoNetwork) {
  const auto findings = judged([](JobFacts& job) {
    job.hosts.pop_back();
    job.ranks.resize(2);
    job.hosts[0].interfaces.clear();
    job.hosts[0].name_addresses = {"127.0.0.1"};
  });
  for (const Finding& bad : bad_ones(findings)) ADD_FAILURE() << bad.kind.id << ": " << bad.seen;
}

TEST(Doctor, NoGpusAreNoFinding) {
  const auto findings = judged([](JobFacts& job) {
    for (RankFacts& rank : job.ranks) {
      rank.gpus.clear();
      rank.used_gpu.clear();
    }
    for (HostFacts& host : job.hosts) {
      host.machine.gpus.clear();
      host.machine.gpu_links.clear();
      host.copies.clear();
    }
  });
  for (const Finding& bad : bad_ones(findings)) ADD_FAILURE() << bad.kind.id << ": " << bad.seen;
}

TEST(Doctor, RanksThatWantNoGpuLackNone) {
  const auto findings = judged([](JobFacts& job) {
    job.ranks[1].environment["HYMN_GPU"] = "none";
    job.ranks[1].used_gpu.clear();
  });
  for (const Finding& finding : findings) EXPECT_NE(finding.kind.id, "gpu.missing");
}

TEST(Doctor, HardwareThreadsAreNotCores) {
  const auto findings = judged([](JobFacts& job) {
    job.hosts[0].machine.cores.clear();
    for (int core = 0; core < 4; ++core)
      job.hosts[0].machine.cores.push_back(
          {.os_index = core, .cpus = CpuSet::range(2 * core, 2 * core + 1)});
    job.ranks[0].cpus = job.ranks[1].cpus = CpuSet::range(2, 3);
  });
  ASSERT_FALSE(bad_ones(findings).empty());
  EXPECT_EQ(findings[0].kind.id, "cpus.same-core");
  EXPECT_THAT(findings[0].seen, HasSubstr("on 1 core only (CPUs 2-3)"));
}

TEST(Findings, TheWorstComesFirstAndTheSameIsToldOnce) {
  FindingList list;
  EXPECT_EQ(list.worst(), Severity::ok);
  list.add("files.stale", "some", {{}, {"b"}});
  list.add("hymn.world", "none", {{2}, {}});
  list.add("hymn.world", "none", {{0}, {}});
  list.add("files.stale", "some", {{}, {"a"}});
  EXPECT_EQ(list.worst(), Severity::error);
  const auto findings = list.sorted();
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].kind.id, "hymn.world");
  EXPECT_EQ(findings[0].ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(findings[1].hosts, (std::vector<std::string>{"a", "b"}));
  EXPECT_THROW(list.add("no.such", ""), std::logic_error);
}

TEST(Findings, RanksAreListedAsRanges) {
  EXPECT_EQ(list_ranks({}), "");
  EXPECT_EQ(list_ranks(std::vector<int>{7}), "7");
  EXPECT_EQ(list_ranks(std::vector<int>{0, 1, 2, 5, 7, 8}), "0-2, 5, 7-8");
}

}  // namespace
}  // namespace hymn::test
