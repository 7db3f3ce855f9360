// How whole jobs begin and end when MPI is left to hymn: starts own_init and looks at its status,
// its words, and how long it took.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

namespace hymn::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct Ending {
  int status = -1;  ///< of the exit; 128 + signal otherwise
  std::string output;
  double seconds = 0;
};

// A job that does not end by itself ends with this status.
constexpr int hung = 124;

Ending run_shell(const std::string& command) {
  Ending ending;
  const auto began = std::chrono::steady_clock::now();
  FILE* pipe = ::popen(("timeout -k 5 60 " + command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ending;
  std::array<char, 4096> part{};
  while (const std::size_t length = std::fread(part.data(), 1, part.size(), pipe))
    ending.output.append(part.data(), length);
  const int status = ::pclose(pipe);
  ending.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ending.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return ending;
}

/// `settings` are NAME=value words.
Ending run_job(int ranks, const std::string& life, const std::string& settings = "") {
  return run_shell("env " + settings + " " HYMN_MPIRUN " -n " + std::to_string(ranks) +
                   " " HYMN_OWN_INIT " " + life);
}

/// Without a launcher, or with one that MPI does not know: each process is alone.
Ending run_alone(const std::string& life, const std::string& settings = "") {
  return run_shell("env " + settings + " " HYMN_OWN_INIT " " + life);
}

TEST(OwnInit, EndsWithoutAWord) {
  for (const char* life : {"two_at_once", "at_exit_static", "never_used"}) {
    for (const int ranks : {1, 3}) {
      const Ending ending = run_job(ranks, life);
      EXPECT_EQ(ending.status, 0) << life << " of " << ranks;
      EXPECT_EQ(ending.output, "") << life << " of " << ranks;
    }
  }
}

TEST(OwnInit, ThreeWorldsOneAfterTheOther) {
  const Ending ending = run_job(3, "three_worlds");
  EXPECT_EQ(ending.status, 0);
  EXPECT_EQ(ending.output, "three\nthree\nthree\n");
}

// The others are gone by then: MPI_Finalize() would wait for them for ever.
TEST(OwnInit, WhoComesLateToTheEndIsNotHeldUp) {
  const Ending ending = run_shell("env HYMN_TIMEOUT=0.5 HYMN_INIT_TIMEOUT=30 " HYMN_MPIRUN
                                  " --enable-recovery -n 3 " HYMN_OWN_INIT " late_end");
  EXPECT_NE(ending.status, hung);
  EXPECT_THAT(ending.output, HasSubstr("ending the world: waited"));
  EXPECT_LT(ending.seconds, 30);
}

TEST(OwnInit, WithoutMpirun) {
  const Ending ending = run_alone("tell_size");
  EXPECT_EQ(ending.status, 0);
  EXPECT_EQ(ending.output, "size 1\n");
}

TEST(OwnInit, ARefusedWorldLeavesNothingBehind) {
  for (const char* level : {"single", "multiple"}) {
    const Ending ending =
        run_job(2, "after_a_refused_world", std::string("HYMN_MPI_THREAD_LEVEL=") + level);
    EXPECT_EQ(ending.status, 0) << level;
    EXPECT_EQ(ending.output, "") << level;
  }
}

TEST(OwnInit, AWorldThatOneRankIsRefusedHindersNoOther) {
  for (const char* level : {"single", "multiple"}) {
    const Ending ending =
        run_job(3, "one_is_refused", std::string("HYMN_MPI_THREAD_LEVEL=") + level);
    EXPECT_EQ(ending.status, 0) << level << ": " << ending.output;
    EXPECT_EQ(ending.output, "") << level;
  }
}

TEST(OwnInit, AsksForTheLevelThatIsSet) {
  EXPECT_EQ(run_job(1, "tell_level").output, "level single\n");
  EXPECT_EQ(run_job(1, "tell_level", "HYMN_PROGRESS_THREAD=1").output, "level multiple\n");
  EXPECT_EQ(run_job(1, "tell_level_asked", "HYMN_MPI_THREAD_LEVEL=single").output,
            "level serialized\n");
  for (const std::string level : {"funneled", "serialized", "multiple"}) {
    const Ending ending = run_job(1, "tell_level", "HYMN_MPI_THREAD_LEVEL=" + level);
    EXPECT_EQ(ending.status, 0) << level;
    EXPECT_EQ(ending.output, "level " + level + "\n");
  }
}

TEST(OwnInit, TellsHowItHasStarted) {
  const std::string told =
      run_job(2, "tell_level", "HYMN_LOG_LEVEL=info HYMN_TUNING=off HYMN_TIMEOUT=17").output;
  const auto count = [&told](const std::string& text) {
    std::size_t found = 0;
    for (std::size_t at = told.find(text); at != std::string::npos; at = told.find(text, at + 1))
      ++found;
    return found;
  };
  EXPECT_THAT(told, ContainsRegex("hymn [0-9]+.[0-9]+.[0-9]+: 2 ranks on 1 host; .*MPI.*, MPI_"));
  EXPECT_EQ(count(": 2 ranks on 1 host; "), 1u) << told;
  EXPECT_EQ(count(", MPI_THREAD_SINGLE"), 1u) << told;
  EXPECT_THAT(told, ContainsRegex("settings that are not at their defaults: .*HYMN_TIMEOUT=17.*"
                                  "HYMN_LOG_LEVEL=info"));
  EXPECT_EQ(count("settings that are not at"), 1u) << told;
  EXPECT_THAT(told, ContainsRegex("host [^:]+: .*GPU.*; rank 0: CPUs [0-9,-]+.*; rank 1: CPUs"));
  EXPECT_THAT(told, ContainsRegex("all_reduce of float32: shm \\([a-z_]+\\) "));
  for (const char* collective : {"broadcast", "all_gather", "reduce_scatter", "all_to_all"})
    EXPECT_EQ(count(std::string(collective) + " of float32: "), 1u) << told;
  EXPECT_THAT(told, ContainsRegex("paths that are there: .*exchange, .*mpi.*shm"));
  EXPECT_THAT(run_job(2, "tell_level", "HYMN_TUNING=off").output, Not(HasSubstr("host")));
}

/// The job must end by itself, soon, and say that it has failed.
void expect_failed(const Ending& ending, const std::string& what) {
  EXPECT_NE(ending.status, 0) << what;
  EXPECT_NE(ending.status, hung) << what;
  EXPECT_LT(ending.seconds, 25) << what;
  EXPECT_THAT(ending.output, Not(HasSubstr("the barrier is over"))) << what;
}

TEST(OwnInit, AnExceptionEndsTheJob) {
  const Ending uncaught = run_job(3, "uncaught");
  expect_failed(uncaught, "uncaught");
  EXPECT_THAT(uncaught.output, HasSubstr("the last rank has had enough"));
  const Ending caught = run_job(3, "caught");
  expect_failed(caught, "caught");
  EXPECT_THAT(caught.output, HasSubstr("the last rank has had enough"));
  expect_failed(run_job(3, "all_caught"), "all_caught");
  expect_failed(run_job(1, "caught"), "caught, one rank");
}

TEST(OwnInit, AnExitWithAWorldAliveEndsTheJob) {
  expect_failed(run_job(3, "early_exit"), "early_exit");
  // Nobody can tell such an end from a failure: it is not waited for, and MPI is not finalized.
  const Ending leaked = run_job(3, "at_exit_leaked");
  EXPECT_NE(leaked.status, hung);
  EXPECT_LT(leaked.seconds, 25);
}

TEST(OwnInit, ATimeoutEndsTheJob) { expect_failed(run_job(3, "timed_out"), "timed_out"); }

void expect_told(const Ending& ending, const std::string& variable, const std::string& remedy) {
  EXPECT_EQ(ending.status, 6) << variable;
  EXPECT_THAT(ending.output, HasSubstr("ConfigError: "));
  EXPECT_THAT(ending.output, HasSubstr(variable));
  EXPECT_THAT(ending.output, HasSubstr("remedy: " + remedy));
}

TEST(Launcher, OfMoreTasksThanMpiSees) {
  expect_told(run_alone("tell_size", "SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0"),
              "3 tasks (SLURM_STEP_NUM_TASKS)", "start it with srun --mpi=");
#ifndef HYMN_TESTS_OVER_MPICH  // it would go and use it
  expect_told(run_alone("tell_size", "SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0 PMI_FD=99"),
              "3 tasks with PMI instead of PMIx", "start it with srun --mpi=pmix");
#endif
  expect_told(run_alone("tell_size", "PMI_SIZE=4"), "4 tasks (PMI_SIZE)", "use the mpirun of");
}

TEST(Launcher, OfOneTask) {
  for (const char* settings :
       {"SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", "PMI_SIZE=1", "SLURM_STEP_NUM_TASKS=3",
        "SLURM_STEP_NUM_TASKS=many SLURM_PROCID=0"}) {
    const Ending ending = run_alone("tell_size", settings);
    EXPECT_EQ(ending.status, 0) << settings;
    EXPECT_EQ(ending.output, "size 1\n") << settings;
  }
}

TEST(Launcher, InsideALargerJob) {
  for (const int ranks : {1, 2}) {
    const Ending ending =
        run_job(ranks, "tell_size", "SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0 SLURM_NTASKS=3");
    EXPECT_EQ(ending.status, 0);
    EXPECT_THAT(ending.output, HasSubstr("size " + std::to_string(ranks) + "\n"));
  }
}

TEST(Launcher, BadSettingsAreToldByEveryRank) {
  for (const char* setting : {"HYMN_TIMEOUT=soon", "HYMN_TIMEOUTS=3", "HYMN_PATH=pigeon"}) {
    const Ending ending = run_job(2, "tell_size", setting);
    EXPECT_NE(ending.status, 0) << setting;
    EXPECT_LT(ending.seconds, 25) << setting;
    EXPECT_THAT(ending.output, HasSubstr("ConfigError: ")) << setting;
  }
}

}  // namespace
}  // namespace hymn::test
