// Peer memory between processes: staging buffers opened by handles of CUDA's IPC. Without MPI: the
// processes are forked here, before anything has asked for a GPU, and meet in a file. They share
// what GPUs there are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "gpu/gpu_functions.hpp"
#include "hymn/store.hpp"
#include "tests/gpu/real_gpu.hpp"
#include "tests/support/child.hpp"
#include "tests/support/shell.hpp"
#include "tests/support/variable.hpp"

namespace hymn::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::IsEmpty;

using Body = std::function<void(World&, ProcessGroup&)>;
using Reports = std::vector<std::string>;

const GroupOptions through_staging{.path = "cuda_p2p,shm"};

/// For who cannot use gtest's expectations.
void require(bool right, const std::string& what) {
  if (!right) throw std::runtime_error(what);
}

template <class T>
void require_all(const RealBuffer<T>& buffer, T value, const std::string& what) {
  const std::vector<T> found = buffer.values();
  const auto wrong =
      std::find_if(found.begin(), found.end(), [&](const T& each) { return each != value; });
  if (wrong != found.end())
    throw std::runtime_error(what + ": " +
                             std::to_string(static_cast<double>(static_cast<float>(*wrong))));
}

std::string take_part(const Body& body, const std::string& meeting, int rank, int ranks) {
  int gpus = 0;
  call_driver("cuInit", loaded_gpu_functions().cuda.init.pointer(0));
  call_driver("cuDeviceGetCount", loaded_gpu_functions().cuda.count.pointer(&gpus));
  choose_real_gpu(rank % gpus);
  setenv("HYMN_GPU", std::to_string(rank % gpus).c_str(), 1);
  World world =
      World::over(exchange_over(std::make_shared<FileStore>(meeting, ranks), rank, ranks));
  std::vector<int> everybody(static_cast<std::size_t>(ranks));
  std::iota(everybody.begin(), everybody.end(), 0);
  ProcessGroup group = world.new_group(everybody, through_staging);
  body(world, group);
  return "";
}

/// What the ranks report: nothing where all went well.
Reports run_processes(
    int ranks, const Body& body, const std::function<void(int)>& before = [](int) {}) {
  static int runs = 0;
  const std::string meeting =
      testing::TempDir() + "hymn-gpus-" + std::to_string(getpid()) + "-" + std::to_string(runs++);
  std::vector<std::unique_ptr<Child>> processes;
  for (int rank = 0; rank < ranks; ++rank)
    processes.push_back(std::make_unique<Child>([&, meeting, rank] {
      before(rank);
      return take_part(body, meeting, rank, ranks);
    }));
  Reports reports;
  for (const auto& process : processes) reports.push_back(process->report());
  unlink(meeting.c_str());  // of those that died
  return reports;
}

class GpuProcesses : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, GpuProcesses, testing::Values(2, 3, 4));

std::uint64_t uses_of(const ProcessGroup& group, std::string_view algorithm) {
  std::uint64_t sum = 0;
  for (const AlgorithmUse& use : group.uses())
    if (use.path == "cuda_p2p" && use.algorithm == algorithm) sum += use.count;
  return sum;
}

/// One element more than fits into a staging buffer goes in pieces; small ones in one shot.
TEST_P(GpuProcesses, AllReduceOfAnySize) {
  const Reports reports = run_processes(GetParam(), [](World& world, ProcessGroup& group) {
    const int sum = world.size() * (world.size() + 1) / 2;
    for (const std::size_t count : {1, 3, 1025, (1 << 20) + 1}) {
      const RealBuffer<float> floats(
          std::vector<float>(count, static_cast<float>(world.rank() + 1)));
      group.all_reduce(floats.view());
      require_all(floats, static_cast<float>(sum), "a sum");
      if (count > 1025) continue;
      const RealBuffer<std::int32_t> ints(std::vector<std::int32_t>(count, world.rank() + 1));
      group.all_reduce(ints.view());
      require_all(ints, sum, "a sum of integers");
      const RealBuffer<float> most(std::vector<float>(count, static_cast<float>(world.rank())));
      group.all_reduce(most.view(), ReduceOp::max);
      require_all(most, static_cast<float>(world.size() - 1), "a maximum");
    }
    require(uses_of(group, "all_reduce_one_shot") > 0, "nothing went in one shot");
    require(uses_of(group, "all_reduce_two_shot") > 0, "nothing went in two shots");
  });
  EXPECT_THAT(reports, Each(IsEmpty()));
}

/// Of this machine, without the driver, which must not be loaded before the processes are made.
std::ptrdiff_t count_real_gpus() {
  std::error_code error;
  const std::filesystem::directory_iterator gpus("/proc/driver/nvidia/gpus", error);
  return std::distance(begin(gpus), end(gpus));
}

/// As launchers set CUDA_VISIBLE_DEVICES: IPC opens memory of GPUs that a process does not see.
TEST(GpuProcessesAlone, EachSeesItsOwnGpuAlone) {
  if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  if (count_real_gpus() == 1) GTEST_SKIP() << "there is one GPU";
  const auto show = [](int rank) {
    for (const char* const variable : {"CUDA_VISIBLE_DEVICES", "TOY_VISIBLE"})
      setenv(variable, std::to_string(rank).c_str(), 1);
  };
  const Reports reports = run_processes(
      2,
      [](World& world, ProcessGroup& group) {
        const RealBuffer<float> floats(std::vector<float>(1025, static_cast<float>(world.rank())));
        group.all_reduce(floats.view());
        require_all(floats, 1.0F, "a sum");
        require(uses_of(group, "all_reduce_one_shot") > 0, "it went another way");
      },
      show);
  EXPECT_THAT(reports, Each(IsEmpty()));
}

TEST_P(GpuProcesses, TheOthersGoThroughTheStagingBuffers) {
  const Reports reports = run_processes(GetParam(), [](World& world, ProcessGroup& group) {
    const auto size = static_cast<std::size_t>(world.size());
    const RealBuffer<std::int32_t> mine(std::vector<std::int32_t>(1001, world.rank()));
    const RealBuffer<std::int32_t> all(std::vector<std::int32_t>(1001 * size));
    group.all_gather(mine.view(), all.view());
    const std::vector<std::int32_t> found = all.values();
    for (std::size_t i = 0; i < found.size(); ++i)
      require(found[i] == static_cast<int>(i / 1001), "all_gather");
    group.reduce_scatter(all.view(), mine.view());
    require_all(mine, world.rank() * world.size(), "reduce_scatter");
    group.broadcast(mine.view(), world.size() - 1);
    require_all(mine, (world.size() - 1) * world.size(), "broadcast");
  });
  EXPECT_THAT(reports, Each(IsEmpty()));
}

TEST_P(GpuProcesses, WhatIsOnAStreamKeepsItsOrder) {
  const Reports reports = run_processes(GetParam(), [](World& world, ProcessGroup& group) {
    const RealStream stream;
    RealBuffer<float> from(std::vector<float>(4097, static_cast<float>(world.rank() + 1)));
    RealBuffer<float> work(std::vector<float>(4097));
    RealBuffer<float> result(std::vector<float>(4097));
    for (int i = 0; i < 3; ++i) {
      stream.copy(work.memory().address(), from.memory().address(), 4097 * sizeof(float));
      group.all_reduce(work.view(), ReduceOp::sum, {.stream = stream.get()});
      stream.copy(result.memory().address(), work.memory().address(), 4097 * sizeof(float));
    }
    stream.synchronize();
    require_all(result, static_cast<float>(world.size() * (world.size() + 1)) / 2, "a sum");
  });
  EXPECT_THAT(reports, Each(IsEmpty()));
}

/// Without a control plane nobody hears of a death: the limit ends the call, and the kernels.
TEST_P(GpuProcesses, TheKernelsOfWhoGivesUpEnd) {
  const Variable control("HYMN_CONTROL", "0");
  const Reports reports = run_processes(GetParam(), [](World& world, ProcessGroup& group) {
    const RealBuffer<float> buffer(std::vector<float>(64, 1.0F));
    group.all_reduce(buffer.view());
    if (world.rank() == 1) kill(getpid(), SIGKILL);
    try {
      group.all_reduce(buffer.view(), ReduceOp::sum, {.timeout = std::chrono::milliseconds(300)});
      throw std::runtime_error("a call that rank 1 never made has completed");
    } catch (const TimeoutError&) {
      const GpuDevice::Entry entry(real_gpu());
      call_driver("cuCtxSynchronize", real_gpu().cuda().synchronize.pointer());
    }
    _exit(0);  // there is nobody to meet at the end
  });
  for (std::size_t rank = 0; rank < reports.size(); ++rank)
    EXPECT_EQ(reports[rank], rank == 1 ? "killed by signal 9" : "") << "rank " << rank;
}

/// With one they are told who is missing.
TEST(GpuProcessesOverMpi, ADeathIsNamed) {
  if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  if (run_shell("command -v \"${MPIRUN:-mpirun}\"").exit_code != 0)
    GTEST_SKIP() << "there is no mpirun";
  // Both may have been carried to another machine.
  const char* const mpirun = std::getenv("GPU_CHECK_MPIRUN");
  const auto job_program =
      std::filesystem::read_symlink("/proc/self/exe").replace_filename("gpu_mpi_job");
  const ShellOutcome job =
      run_shell(std::string("timeout -s KILL 15 '") + (mpirun != nullptr ? mpirun : HYMN_MPIRUN) +
                "' --enable-recovery -n 3 '" + job_program.string() + "' 2>&1");
  // Who comes late to see it may find the other survivor gone as well.
  EXPECT_THAT(job.output, ContainsRegex("rank 0 misses( 2)? 1( 2)?, and its GPU is idle"));
  EXPECT_THAT(job.output, ContainsRegex("rank 2 misses( 0)? 1( 0)?, and its GPU is idle"));
}

}  // namespace
}  // namespace hymn::test
