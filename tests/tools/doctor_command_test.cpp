// `hymn doctor` as a user meets it, on machines and in jobs where something is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/shell.hpp"
#include "topology/read_machine.hpp"

namespace hymn::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

const std::string doctor = HYMN_COMMAND " doctor";

std::string under_mpirun(int ranks) { return HYMN_MPIRUN " -n " + std::to_string(ranks) + " "; }

struct Diagnosis {
  int exit_code = -1;
  Json report;

  /// The first finding with this id, or null.
  Json finding(const std::string& id) const {
    for (const Json& finding : report.value("findings", Json::array()))
      if (finding["id"] == id) return finding;
    return nullptr;
  }
  /// What it says that it has seen; "" when there is no such finding.
  std::string seen(const std::string& id) const {
    const Json found = finding(id);
    return found.is_null() ? "" : found["seen"].get<std::string>();
  }
};

// The line must run `hymn doctor --json`, which prints one JSON object and nothing else.
Diagnosis diagnose(const std::string& line) {
  const ShellOutcome outcome = run_shell(line);
  Diagnosis diagnosis{outcome.exit_code, Json::parse(outcome.output, nullptr, false)};
  EXPECT_TRUE(diagnosis.report.is_object())
      << line << "\nended with " << outcome.exit_code << " and wrote: " << outcome.output;
  if (!diagnosis.report.is_object()) diagnosis.report = Json::object();
  return diagnosis;
}

int expected_exit_code(const Json& severity) {
  if (severity == "error") return 4;
  return severity == "warning" ? 3 : 0;
}

bool can_mount() { return run_shell("unshare --mount true 2>&1").exit_code == 0; }

// Runs a line in a mount namespace of its own, with a /dev/shm of this size.
std::string with_shm(const std::string& size, const std::string& line) {
  return "unshare --mount sh -c \"mount -t tmpfs -o size=" + size + " none /dev/shm && " + line +
         "\"";
}

TEST(HymnDoctor, ReportsAndItsExitCodeSaysHowBadItIs) {
  for (const std::string& launcher : {std::string(), under_mpirun(2)}) {
    SCOPED_TRACE(launcher);
    const Diagnosis diagnosis = diagnose(launcher + doctor + " --json");
    ASSERT_TRUE(diagnosis.report.contains("severity"));
    EXPECT_EQ(diagnosis.exit_code, expected_exit_code(diagnosis.report["severity"]));
    EXPECT_EQ(diagnosis.report["ranks"], launcher.empty() ? 1 : 2);
    EXPECT_EQ(diagnosis.report["hosts"].size(), 1u);
    EXPECT_TRUE(diagnosis.finding("hymn.world").is_null()) << diagnosis.report.dump(2);
    EXPECT_TRUE(diagnosis.finding("doctor.incomplete").is_null()) << diagnosis.report.dump(2);
    EXPECT_FALSE(diagnosis.finding("memory").is_null());
    for (const Json& finding : diagnosis.report["findings"]) {
      EXPECT_NE(finding["seen"], "");
      EXPECT_EQ(finding["severity"] == "ok", finding["remedy"] == "") << finding.dump();
      EXPECT_EQ(finding["severity"] == "ok", finding["consequence"] == "") << finding.dump();
    }
  }
}

TEST(HymnDoctor, TextTellsWhatIsFineOnlyWhenAsked) {
  const std::string brief = run_shell(doctor).output;
  EXPECT_THAT(brief, HasSubstr("hymn doctor: 1 rank on 1 host"));
  EXPECT_THAT(brief, Not(HasSubstr("in order")));
  EXPECT_THAT(run_shell(doctor + " --verbose").output, HasSubstr("in order\n  launcher"));
}

TEST(HymnDoctor, RefusesBadArguments) {
  EXPECT_EQ(run_shell(doctor + " --nonsense 2>&1").exit_code, 2);
  for (const char* size : {"1Q", "-5", "99999999999999999999", "5P"}) {
    const ShellOutcome outcome = run_shell(doctor + " --memory " + size + " 2>&1");
    EXPECT_EQ(outcome.exit_code, 2) << size;
    EXPECT_THAT(outcome.output, HasSubstr("--memory")) << size;
  }
}

TEST(HymnDoctor, FindsRanksOnOneCore) {
  const Machine machine = read_this_machine();
  if (machine.cores.size() < 2) GTEST_SKIP() << "needs two cores";
  const std::string cpu = std::to_string(CpuSet::of_this_thread().first());
  const Diagnosis diagnosis =
      diagnose("taskset -c " + cpu + " " + under_mpirun(2) + doctor + " --json");
  EXPECT_THAT(diagnosis.seen("cpus.same-core"), HasSubstr("2 ranks of "));
  EXPECT_EQ(diagnosis.finding("cpus.same-core")["ranks"], (Json{0, 1}));
  EXPECT_THAT(diagnosis.seen("cpus.narrow"), HasSubstr("(CPUs " + cpu + " of "));
  EXPECT_GE(diagnosis.exit_code, 3);
}

TEST(HymnDoctor, FindsAnotherEnvironmentOnOneRank) {
  const Diagnosis diagnosis = diagnose(under_mpirun(2) + doctor +
                                       " --json : -n 1 env HYMN_TIMEOUT=50 NCCL_DEBUG=INFO "
                                       "OMP_NUM_THREADS=70000 " +
                                       doctor + " --json");
  EXPECT_EQ(diagnosis.report["ranks"], 3);
  EXPECT_EQ(diagnosis.seen("environment.hymn"),
            "HYMN_TIMEOUT: '50' on rank 2; not set on ranks 0-1");
  EXPECT_EQ(diagnosis.seen("environment.transport"),
            "NCCL_DEBUG: 'INFO' on rank 2; not set on ranks 0-1");
  EXPECT_EQ(diagnosis.seen("environment.rank"),
            "OMP_NUM_THREADS: '70000' on rank 2; not set on ranks 0-1");
  for (const char* id : {"environment.hymn", "environment.transport", "environment.rank"})
    EXPECT_EQ(diagnosis.finding(id)["ranks"], (Json{2})) << id;
  EXPECT_THAT(diagnosis.seen("cpus.threads"), HasSubstr("70002 OpenMP threads"));
  EXPECT_GE(diagnosis.exit_code, 3);
}

TEST(HymnDoctor, FindsAMalformedVariableOnOneRank) {
  const Diagnosis diagnosis = diagnose(under_mpirun(1) + doctor + " --json : -n 1 env " +
                                       "HYMN_TIMEOUT=soon " + doctor + " --json");
  EXPECT_EQ(diagnosis.exit_code, 4);
  EXPECT_THAT(diagnosis.seen("hymn.settings"), HasSubstr("HYMN_TIMEOUT='soon'"));
  EXPECT_EQ(diagnosis.finding("hymn.settings")["ranks"], (Json{1}));
}

TEST(HymnDoctor, FindsLowLimits) {
  const Diagnosis diagnosis =
      diagnose(under_mpirun(2) + "prlimit --nofile=200 --nproc=100 " + doctor + " --json");
  EXPECT_THAT(diagnosis.seen("limits.open-files"), HasSubstr("RLIMIT_NOFILE is 200"));
  EXPECT_EQ(diagnosis.finding("limits.open-files")["ranks"], (Json{0, 1}));
  if (geteuid() == 0) {  // for others the limit counts all that they run
    EXPECT_THAT(diagnosis.seen("limits.processes"), HasSubstr("RLIMIT_NPROC is 100"));
  }
}

TEST(HymnDoctor, FindsThatSegmentsCannotBeHad) {
  const Diagnosis diagnosis = diagnose("ulimit -f 100000; " + doctor + " --json --memory 1G");
  EXPECT_EQ(diagnosis.exit_code, 4);
  EXPECT_THAT(diagnosis.seen("memory.segment"), HasSubstr("cannot be had: File too large"));
}

TEST(HymnDoctor, FindsThatMemoryIsShort) {
  const Diagnosis diagnosis = diagnose(doctor + " --json --memory 4000T");
  EXPECT_THAT(diagnosis.seen("memory.short"), HasSubstr("3.9 PiB for 1 rank are wanted"));
}

TEST(HymnDoctor, FindsATinySharedMemory) {
  if (!can_mount()) GTEST_SKIP() << "no mount namespaces here";
  const Diagnosis diagnosis = diagnose(with_shm("1m", under_mpirun(2) + doctor + " --json"));
  EXPECT_EQ(diagnosis.exit_code, 4);
  EXPECT_THAT(diagnosis.seen("memory.shm"),
              HasSubstr("a file of 16 MiB for 2 ranks cannot be had: No space left on device"));
  EXPECT_EQ(diagnosis.finding("memory.shm")["hosts"], diagnosis.report["hosts"]);
}

TEST(HymnDoctor, FindsStaleFiles) {
  if (!can_mount()) GTEST_SKIP() << "no mount namespaces here";
  std::string folder = testing::TempDir() + "doctor-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string file = folder + "/nccl-stale";
  const std::string make = "echo left >" + file + " && touch -d '2 hours ago' " + file + " && ";
  const Diagnosis diagnosis =
      diagnose(with_shm("100m", make + "TMPDIR=" + folder + " " + doctor + " --json"));
  EXPECT_TRUE(std::filesystem::exists(file)) << "nothing is deleted";
  std::filesystem::remove_all(folder);
  EXPECT_EQ(diagnosis.seen("files.stale"),
            "1 file of jobs that have ended, 4.0 KiB in all, " + file);
}

TEST(HymnDoctor, FindsStaleFilesThatFillTheSharedMemory) {
  if (!can_mount()) GTEST_SKIP() << "no mount namespaces here";
  const std::string file = "/dev/shm/vader_segment.node.0.1.0";
  const Diagnosis diagnosis =
      diagnose(with_shm("100m", "fallocate -l 50m " + file + " && touch -d '2 hours ago' " + file +
                                    " && " + doctor + " --json"));
  EXPECT_THAT(diagnosis.seen("files.stale-fill"), HasSubstr(file));
  EXPECT_GE(diagnosis.exit_code, 3);
}

#ifndef HYMN_TESTS_OVER_MPICH  // which may have been built for any of srun's plugins
// srun tells tasks that MPI cannot find each other by: none of them starts MPI, one speaks.
TEST(HymnDoctor, FindsATaskThatSlurmLeavesAlone) {
  const std::string step = "SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=";
  const Diagnosis first = diagnose(step + "0 " + doctor + " --json");
  EXPECT_EQ(first.exit_code, 4);
  EXPECT_THAT(first.seen("launcher.mismatch"), HasSubstr("srun --mpi=none, 4 tasks"));
  const ShellOutcome second = run_shell(step + "1 " + doctor + " --json 2>&1");
  EXPECT_EQ(second.exit_code, 4);
  EXPECT_EQ(second.output, "");
}
#endif

TEST(HymnDoctor, FindsTasksThatMpiSeesAsOne) {
  const Diagnosis first =
      diagnose("OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0 " + doctor + " --json");
  EXPECT_EQ(first.exit_code, 4);
  EXPECT_THAT(first.seen("launcher.singletons"), HasSubstr("3 tasks, but "));
  const ShellOutcome second =
      run_shell("OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=2 " + doctor + " --json 2>&1");
  EXPECT_EQ(second.exit_code, 4);
  EXPECT_EQ(second.output, "");
}

#ifndef HYMN_TESTS_OVER_MPICH
TEST(HymnDoctor, WorksUnderSlurmAndFindsItsWrongPlugin) {
  const std::string slurm = HYMN_SLURM " run sh -c '";
  const ShellOutcome probe = run_shell(slurm + "srun --mpi=list 2>&1'");
  if (probe.exit_code == 77) GTEST_SKIP() << probe.output;
  if (probe.output.find("pmix") == std::string::npos) GTEST_SKIP() << "this Slurm has no PMIx";
  const Diagnosis right = diagnose(slurm + "srun --mpi=pmix -n 3 " + doctor + " --json'");
  EXPECT_EQ(right.report["ranks"], 3);
  EXPECT_EQ(right.report["launcher"], "srun --mpi=pmix, 3 tasks");
  EXPECT_TRUE(right.finding("hymn.world").is_null()) << right.report.dump(2);
  for (const char* launch : {"srun --mpi=pmi2", "srun --mpi=none"}) {
    const Diagnosis wrong = diagnose(slurm + launch + " -n 3 " + doctor + " --json'");
    EXPECT_EQ(wrong.exit_code, 4);
    EXPECT_THAT(wrong.seen("launcher.mismatch"), HasSubstr(launch));
  }
}
#endif

TEST(HymnDoctor, LooksAtTheNetworkBetweenHosts) {
  const std::string hosts = HYMN_HOSTS " run 2 ";
  const std::string ranks = HYMN_MPIRUN " --host node0:2,node1:1 " + doctor + " --json";
  const ShellOutcome probe = run_shell(hosts + "true");
  if (probe.exit_code == 77) GTEST_SKIP() << probe.output;
  const Diagnosis good = diagnose(hosts + ranks);
  EXPECT_EQ(good.report["hosts"], (Json{"node0", "node1"}));
  for (const Json& finding : good.report["findings"]) {
    const std::string id = finding["id"];
    EXPECT_THAT(id, Not(testing::AnyOf(HasSubstr("network."), HasSubstr("environment.hymn"),
                                       HasSubstr("environment.transport"), HasSubstr("hymn."))));
  }
  // Whoever reads a host's clock may be kept from its core for seconds.
  EXPECT_THAT(good.seen("clock.skew"), Not(testing::ContainsRegex("[0-9][0-9]\\.[0-9] s apart")));
  const Diagnosis bad = diagnose(hosts + HYMN_BAD_NETWORK " " + ranks);
  EXPECT_EQ(bad.seen("network.name-loopback"), "the host's name resolves to 127.0.1.1");
  EXPECT_EQ(bad.finding("network.name-loopback")["hosts"], (Json{"node0"}));
  EXPECT_THAT(bad.seen("network.many-interfaces"), HasSubstr("more1 10.99.2.1"));
}

// Two GPUs that a library in place of CUDA's pretends.
const std::string fake_gpus = "LD_LIBRARY_PATH=" HYMN_FAKE_CUDA ":$LD_LIBRARY_PATH ";

TEST(HymnDoctor, MovesBytesBetweenGpus) {
  const Diagnosis good = diagnose(fake_gpus + doctor + " --json");
  EXPECT_EQ(good.seen("gpu").substr(0, 9), "2 GPU(s),") << good.report.dump(2);
  for (const char* id : {"gpu.copy-wrong", "gpu.copy-failed", "gpu.no-peer-access", "gpu.shared"})
    EXPECT_TRUE(good.finding(id).is_null()) << id;
  const auto with_fault = [](const std::string& fault) {
    return diagnose("FAKE_CUDA=" + fault + " " + fake_gpus + doctor + " --json");
  };
  const Diagnosis wrong = with_fault("wrong");
  EXPECT_EQ(wrong.exit_code, 4);
  EXPECT_THAT(wrong.seen("gpu.copy-wrong"),
              testing::AllOf(HasSubstr("GPU 0 to 1:"), HasSubstr("GPU 1 to 0:")));
  const Diagnosis full = with_fault("full");
  EXPECT_EQ(full.exit_code, 4);
  EXPECT_THAT(full.seen("gpu.copy-failed"),
              HasSubstr("to and from GPU 0: cuMemAlloc_v2 failed with CUDA_ERROR_OUT_OF_MEMORY"));
  EXPECT_EQ(with_fault("apart").seen("gpu.no-peer-access"), "GPU 0 to 1; GPU 1 to 0");
}

TEST(HymnDoctor, FindsGpusThatAreSharedOrHidden) {
  const Diagnosis own = diagnose(fake_gpus + under_mpirun(2) + doctor + " --json");
  for (const char* id : {"gpu.shared", "gpu.hidden", "gpu.missing", "hymn.world"})
    EXPECT_TRUE(own.finding(id).is_null()) << own.finding(id).dump(2);
  const Diagnosis shared =
      diagnose(fake_gpus + "HYMN_GPU=1 " + under_mpirun(2) + doctor + " --json");
  EXPECT_EQ(shared.finding("gpu.shared")["ranks"], (Json{0, 1}));
  const Diagnosis hidden =
      diagnose(fake_gpus + under_mpirun(1) + "env CUDA_VISIBLE_DEVICES=0 " + doctor +
               " --json : -n 1 env CUDA_VISIBLE_DEVICES=1 " + doctor + " --json");
  EXPECT_THAT(hidden.seen("gpu.hidden"), HasSubstr("which rank 1 uses, is hidden"));
  EXPECT_TRUE(hidden.finding("gpu.shared").is_null()) << hidden.report.dump(2);
  const Diagnosis missing =
      diagnose(fake_gpus + under_mpirun(1) + doctor +
               " --json : -n 1 env CUDA_VISIBLE_DEVICES= " + doctor + " --json");
  EXPECT_EQ(missing.finding("gpu.missing")["ranks"], (Json{1}));
}

TEST(HymnDoctor, FindsThatAProgressThreadCannotRun) {
  const Diagnosis diagnosis = diagnose("HYMN_MPI_THREAD_LEVEL=funneled HYMN_PROGRESS_THREAD=1 " +
                                       under_mpirun(2) + doctor + " --json");
  EXPECT_EQ(diagnosis.exit_code, 4);
  EXPECT_EQ(diagnosis.finding("mpi.progress-thread")["ranks"], (Json{0, 1}));
  EXPECT_EQ(diagnosis.finding("hymn.world")["ranks"], (Json{0, 1})) << "told once";
}

// MPI made to fail by a library loaded before it.
TEST(HymnDoctor, FindsAnMpiThatDoesNotStartOrGrantsNoThreads) {
#ifdef HYMN_BROKEN_MPI
  const std::string broken = "LD_PRELOAD=" HYMN_BROKEN_MPI " BROKEN_MPI=";
  const Diagnosis dead = diagnose(broken + "init " + doctor + " --json");
  EXPECT_EQ(dead.exit_code, 4);
  EXPECT_THAT(dead.seen("mpi.not-started"), HasSubstr("MPI_Init_thread"));
  const Diagnosis poor =
      diagnose("HYMN_MPI_THREAD_LEVEL=multiple " + broken + "threads " + doctor + " --json");
  EXPECT_THAT(poor.seen("mpi.thread-level"), HasSubstr("multiple, granted single"));
#else
  GTEST_SKIP() << "a sanitizer's runtime must be loaded before any other library";
#endif
}

}  // namespace
}  // namespace hymn::test
