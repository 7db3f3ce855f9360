// What `hymn doctor` reads, tries out and sends to rank 0.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "hymn/error.hpp"
#include "tests/tools/healthy_job.hpp"
#include "tools/doctor/gpu.hpp"
#include "tools/doctor/probes.hpp"
#include "tools/doctor/report.hpp"
#include "tools/doctor/wire.hpp"

namespace hymn::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

class Folder {
 public:
  Folder() {
    std::string name = testing::TempDir() + "doctor-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }

  std::string make_file(const std::string& name, int age_in_seconds) const {
    const std::string path = path_ + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << std::string(5000, 'x');
    make_older(path, age_in_seconds);
    return path;
  }
  void make_older(const std::string& path, int age_in_seconds) const {
    fs::last_write_time(path,
                        fs::file_time_type::clock::now() - std::chrono::seconds(age_in_seconds));
  }

 private:
  std::string path_;
};

TEST(DoctorProbes, MemoryCanBeHadOrNot) {
  EXPECT_EQ(try_segment(1 << 20), "");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit narrow{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &narrow);
  EXPECT_EQ(try_segment(2 << 20), "File too large");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
}

TEST(DoctorProbes, AFileIsTriedAndLeavesNothing) {
  const Folder folder;
  EXPECT_EQ(try_file(folder.path(), 1 << 20), "");
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_EQ(try_file(folder.path() + "/nowhere", 1), "No such file or directory");
}

TEST(DoctorProbes, LimitsAndInterfacesAreThere) {
  EXPECT_GT(read_limits().open_files, 2u);
  bool has_loopback = false;
  for (const NetworkInterface& interface : read_interfaces())
    has_loopback = has_loopback || interface.loopback;
  EXPECT_TRUE(has_loopback);
}

TEST(DoctorProbes, StaleFilesAreFound) {
  const Folder shm;
  const Folder temporary;
  const auto vader = shm.make_file("vader_segment.node.0.1234.0", 3600);
  const auto nccl = shm.make_file("nccl-AbCdEf", 3600);
  shm.make_file("vader_segment.node.0.1234.1", 0);  // may belong to a job that starts now
  shm.make_file("of-somebody", 3600);
  const auto session = temporary.path() + "/ompi.node.0";
  // No process has a number that high: the kernel's limit is 2^22.
  temporary.make_file("ompi.node.0/pid.99999999/contact.txt", 3600);
  temporary.make_older(session + "/pid.99999999", 3600);
  temporary.make_file("ompi.node.0/pid." + std::to_string(getpid()) + "/contact.txt", 3600);
  temporary.make_older(session + "/pid." + std::to_string(getpid()), 3600);
  temporary.make_file("ompi.node.0/jf.5/0", 3600);
  temporary.make_older(session + "/jf.5", 3600);  // perhaps of a job that still runs

  const StaleFiles stale = find_stale({.shm = shm.path(), .temporary = temporary.path()});
  EXPECT_THAT(stale.examples, UnorderedElementsAre(vader, nccl, session + "/pid.99999999"));
  EXPECT_EQ(stale.count, 3);
  EXPECT_GE(stale.shm_bytes, 10000u);
  EXPECT_GT(stale.bytes, stale.shm_bytes);
  EXPECT_TRUE(fs::exists(vader));
}

TEST(DoctorProbes, WhatAProcessHoldsIsNotStale) {
  const Folder folder;
  const auto path = folder.make_file("vader_segment.node.0.1234.0", 3600);
  const StaleSearch search{.shm = folder.path(), .temporary = folder.path()};
  EXPECT_EQ(find_stale(search).count, 1);

  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  EXPECT_EQ(find_stale(search).count, 0) << "open";
  void* memory = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(memory, MAP_FAILED);
  close(file);
  EXPECT_EQ(find_stale(search).count, 0) << "mapped";
  munmap(memory, 4096);
  EXPECT_EQ(find_stale(search).count, 1);
}

TEST(DoctorProbes, FoldersThatAreNotThereHoldNothing) {
  EXPECT_EQ(find_stale({.shm = "/nowhere/at", .temporary = "/nowhere/else"}).count, 0);
}

// Two GPUs of which the second cannot be reached directly.
class FakeCopier final : public GpuCopier {
 public:
  int count() override { return 2; }
  bool has_peer_access(int from, int to) override { return from == to || to == 0; }
  std::vector<unsigned char> round_trip(int from, int to,
                                        const std::vector<unsigned char>& bytes) override {
    if (from == 1 && to == 1) throw BackendError("cuMemAlloc failed with OUT_OF_MEMORY", "CUDA", 2);
    auto back = bytes;
    if (from == 1 && to == 0) back[back.size() - 1] = 0;
    return back;
  }
};

TEST(DoctorProbes, BytesAreMovedBetweenGpus) {
  FakeCopier copier;
  const auto copies = try_copies(copier);
  ASSERT_EQ(copies.size(), 4u);
  EXPECT_TRUE(copies[0].right && copies[0].direct && copies[0].problem.empty());
  EXPECT_FALSE(copies[1].direct);
  EXPECT_TRUE(copies[1].right);
  EXPECT_FALSE(copies[2].right);
  EXPECT_EQ(copies[3].problem, "cuMemAlloc failed with OUT_OF_MEMORY");
}

TEST(DoctorWire, FactsArriveAsTheyWereSent) {
  JobFacts job = healthy_job();
  RankFacts& rank = job.ranks[1];
  rank.environment["UCX_TLS"] = "quoted \" and\nlines";
  rank.hidden_gpus = 3;
  rank.world_problem = "because";
  rank.incomplete = "the rest";
  const RankFacts rank_back = rank_from_wire(to_wire(rank));
  EXPECT_EQ(to_wire(rank_back), to_wire(rank));
  EXPECT_EQ(rank_back.environment, rank.environment);
  EXPECT_EQ(rank_back.cpus, rank.cpus);
  EXPECT_EQ(rank_back.gpus[1].id, rank.gpus[1].id);
  EXPECT_EQ(rank_back.granted_level, rank.granted_level);

  HostFacts& host = job.hosts[1];
  host.stale = {.count = 1, .bytes = 2, .shm_bytes = 3, .examples = {"/dev/shm/x"}};
  const HostFacts host_back = host_from_wire(to_wire(host));
  EXPECT_EQ(to_wire(host_back), to_wire(host));
  EXPECT_EQ(host_back.machine, host.machine);
  EXPECT_EQ(host_back.copies.size(), 4u);
  EXPECT_EQ(host_back.interfaces[1].addresses, host.interfaces[1].addresses);
}

// An environment may hold bytes that are not text.
TEST(DoctorWire, BytesThatAreNotTextDoNoHarm) {
  RankFacts rank = healthy_job().ranks[0];
  rank.environment["UCX_TLS"] = "\xff\xfe";
  EXPECT_THAT(rank_from_wire(to_wire(rank)).environment["UCX_TLS"], Not(HasSubstr("\xff")));
}

constexpr const char* open_mpi = "Open MPI v4.1.4";
constexpr const char* mpich = "MPICH Version:\t4.0.2";

// The preload asks, too: it must know the MPI that it was built for.
TEST(DoctorLauncher, KnowsMpisByWhatTheySayOfThemselves) {
  EXPECT_EQ(flavour_of(open_mpi), MpiFlavour::open_mpi);
  for (const char* library :
       {mpich, "Intel(R) MPI Library 2021.18 for Linux* OS\n", "MVAPICH2 Version      :\t2.3.7",
        "MPI VERSION    : CRAY MPICH version 8.1.32.110 (ANL base 3.4a2)"})
    EXPECT_EQ(flavour_of(library), MpiFlavour::mpich) << library;
  EXPECT_EQ(flavour_of("another MPI"), MpiFlavour::other);
  EXPECT_EQ(flavour_of(""), MpiFlavour::other);
}

TEST(DoctorLauncher, ReadsWhatLaunchersSay) {
  EXPECT_EQ(read_launcher({}, open_mpi).launcher, Launcher::none);
  EXPECT_EQ(read_launcher({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}, open_mpi).launcher,
            Launcher::none)
      << "a batch script is no task";
  Environment environment{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"}};
  LauncherFacts facts = read_launcher(environment, open_mpi);
  EXPECT_EQ(describe(facts), "srun --mpi=none, 4 tasks");
  EXPECT_EQ(facts.rank, 3);
  environment["PMI_FD"] = "9";
  environment["SLURM_MPI_TYPE"] = "pmi2";
  EXPECT_EQ(describe(read_launcher(environment, open_mpi)), "srun --mpi=pmi2, 4 tasks");
  environment["OMPI_COMM_WORLD_SIZE"] = "2";
  environment["OMPI_COMM_WORLD_RANK"] = "1";
  EXPECT_EQ(describe(read_launcher(environment, open_mpi)), "mpirun of Open MPI, 2 tasks");
  facts = read_launcher({{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}, {"PMI_FD", "5"}}, mpich);
  EXPECT_EQ(describe(facts), "mpiexec of MPICH (Hydra), 1 task");
  EXPECT_EQ(facts.pmi, "pmi1");
  EXPECT_EQ(read_launcher({{"PMI_SIZE", "many"}}, mpich).tasks, 1);
}

Severity judged_before_mpi(const Environment& more, const char* library) {
  Environment environment{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "0"}};
  environment.insert(more.begin(), more.end());
  FindingList findings;
  judge_launcher(read_launcher(environment, library), findings);
  return findings.worst();
}

TEST(DoctorLauncher, OpenMpiNeedsPmix) {
  const Environment pmi2{{"PMI_FD", "9"}, {"SLURM_MPI_TYPE", "pmi2"}};
  const Environment pmix{{"PMIX_NAMESPACE", "slurm.pmix.1.0"}, {"SLURM_MPI_TYPE", "pmix"}};
  EXPECT_EQ(judged_before_mpi({}, open_mpi), Severity::error);
  EXPECT_EQ(judged_before_mpi(pmi2, open_mpi), Severity::error);
  EXPECT_EQ(judged_before_mpi(pmix, open_mpi), Severity::ok);
  EXPECT_EQ(judged_before_mpi(pmi2, mpich), Severity::ok);
  EXPECT_EQ(judged_before_mpi({}, mpich), Severity::ok) << "its size tells, later";
}

TEST(DoctorLauncher, SingletonsAreFound) {
  const Environment environment{{"PMI_SIZE", "4"}, {"PMI_RANK", "0"}};
  for (const auto& [size, worst] : {std::pair{1, Severity::error}, {4, Severity::ok}}) {
    FindingList findings;
    judge_world_size(read_launcher(environment, mpich), size, findings);
    EXPECT_EQ(findings.worst(), worst) << size;
  }
}

TEST(DoctorReport, SaysEverythingInLinesThatFit) {
  FindingList findings;
  findings.add("memory.shm", std::string(300, 'x') + " and " + std::string(40, 'y') + "\nlast",
               {{}, {"a", "b", "c", "d", "e"}});
  findings.fine("gpu", "no GPUs");
  const DoctorScope scope{2, {"a"}, "no launcher", "Open MPI"};
  const std::string text = report_text(scope, findings, false);
  EXPECT_THAT(text, HasSubstr("hymn doctor: 2 ranks on 1 host (a); no launcher; Open MPI\n"));
  EXPECT_THAT(text, HasSubstr("error  memory.shm  (hosts a, b, c, d and 1 more)\n"));
  EXPECT_THAT(text, HasSubstr("  remedy:      enlarge /dev/shm"));
  EXPECT_THAT(text, HasSubstr("1 error, 0 warnings, 0 notes\n"));
  EXPECT_THAT(text, Not(HasSubstr("no GPUs")));
  EXPECT_THAT(report_text(scope, findings, true), HasSubstr("no GPUs"));
  EXPECT_EQ(exit_code(Severity::note), 0);
  EXPECT_EQ(exit_code(Severity::warning), 3);
  EXPECT_EQ(exit_code(Severity::error), 4);
}

}  // namespace
}  // namespace hymn::test
