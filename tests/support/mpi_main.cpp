// Runs the rank tests over the processes of an mpirun job. All ranks run all tests in the same
// order; rank 0 reports what passes, every rank what fails, and all end with the same status.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <cstdio>
#include <memory>
#include <string>

#include "tests/support/rank_test.hpp"
#include "tests/support/watchdog.hpp"

namespace hymn::test {
namespace {

/// Prints failures alone: for every rank but the first.
class FailurePrinter : public ::testing::EmptyTestEventListener {
  // Asking for the current test while a result is added would wait for ever: both take one lock.
  void OnTestStart(const ::testing::TestInfo& info) override { test_ = &info; }
  void OnTestEnd(const ::testing::TestInfo&) override { test_ = nullptr; }

  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "%s:%d: Failure in %s.%s\n%s\n",
                 result.file_name() == nullptr ? "unknown" : result.file_name(),
                 result.line_number(), test_ == nullptr ? "?" : test_->test_suite_name(),
                 test_ == nullptr ? "?" : test_->name(), result.message());
  }

  const ::testing::TestInfo* test_ = nullptr;
};

void skip_test(const std::string& reason) { GTEST_SKIP() << reason; }

}  // namespace

void on_ranks(const std::function<void(World&)>& body, const WorldOptions& options) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  SCOPED_TRACE("rank " + std::to_string(rank));
  try {
    World world(options);
    body(world);
  } catch (const std::exception& error) {
    // The ranks are no longer in step: end the job rather than let the tests that follow wait.
    ADD_FAILURE() << "rank " << rank << " threw: " << error.what();
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

bool ranks_are_threads() { return false; }

bool any_thread_may_call() {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  return level == MPI_THREAD_MULTIPLE;
}

bool enough_ranks(const World& world, int ranks) {
  if (world.size() >= ranks) return true;
  skip_test("needs " + std::to_string(ranks) + " ranks");
  return false;
}

}  // namespace hymn::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  auto job = std::make_unique<hymn::World>();  // initialises MPI
  hymn::test::install_watchdog("rank " + std::to_string(job->rank()), 300);
  if (job->rank() != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new hymn::test::FailurePrinter);
  }
  int failed = RUN_ALL_TESTS();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  job.reset();
  // hymn would not: some tests leave operations behind that never complete, and it cannot know that
  // all ranks have come to the end nevertheless.
  MPI_Finalize();
  return failed;
}
