// What is said of GPUs and their libraries that are there, or are not, told by tables of the test.
#include "gpu/presence.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hymn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

NcclLibrary nccl_of_version(int (*get_version)(int*)) {
  nccl_api::Functions functions;
  functions.get_version.pointer = get_version;
  return judge_nccl(functions, "");
}

NcclLibrary no_nccl() { return judge_nccl({}, "libnccl.so.2: no such file"); }

GpuFunctions driver_with(int (*init)(unsigned), int (*count)(int*)) {
  GpuFunctions functions;
  functions.cuda.init.pointer = init;
  functions.cuda.count.pointer = count;
  functions.cuda.driver_version.pointer = [](int* version) { return *version = 12080, 0; };
  functions.cuda.error_name.pointer = [](int code, const char** name) {
    return *name = code == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : "CUDA_ERROR_NO_DEVICE", 0;
  };
  return functions;
}

int works(unsigned) { return 0; }

TEST(GpuPresence, WithoutAnything) {
  GpuFunctions nothing;
  nothing.cuda_problem = "libcuda.so.1: no such file";
  nothing.nvml_problem = "libnvidia-ml.so.1: no such file";
  const GpuPresence found = describe_presence(nothing, no_nccl());
  EXPECT_EQ(found.gpus, "none (there is no CUDA driver: libcuda.so.1: no such file)");
  EXPECT_EQ(found.driver, "none (libcuda.so.1: no such file)");
  EXPECT_EQ(found.nvml, "none (libnvidia-ml.so.1: no such file)");
  EXPECT_EQ(found.nccl, "none (libnccl.so.2: no such file)");
}

TEST(GpuPresence, WithEverything) {
  const GpuFunctions box = driver_with(works, [](int* count) { return *count = 8, 0; });
  const GpuPresence found =
      describe_presence(box, nccl_of_version([](int* version) { return *version = 22809, 0; }));
  EXPECT_EQ(found.gpus, "8");
  EXPECT_EQ(found.driver, "CUDA 12.8");
  EXPECT_EQ(found.nvml, "found");
  EXPECT_EQ(found.nccl, "2.28.9");
  EXPECT_EQ(why_no_gpus(box), "");
}

TEST(GpuPresence, TellsWhyADriverHasNoGpus) {
  const auto count_none = [](int* count) { return *count = 0, 0; };
  EXPECT_THAT(why_no_gpus(driver_with(works, count_none)), HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_EQ(why_no_gpus(driver_with([](unsigned) { return 100; }, count_none)),
            "cuInit failed with CUDA_ERROR_NO_DEVICE");
  // The driver is there all the same, and its version tells people what to look for.
  const GpuFunctions mismatched = driver_with([](unsigned) { return 803; }, count_none);
  EXPECT_EQ(describe_presence(mismatched, no_nccl()).driver, "CUDA 12.8");
  EXPECT_EQ(describe_presence(mismatched, no_nccl()).gpus,
            "none (cuInit failed with CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)");
  EXPECT_EQ(why_no_gpus(driver_with(works, [](int* count) { return *count = 3, 100; })),
            "cuDeviceGetCount failed with CUDA_ERROR_NO_DEVICE");
  EXPECT_THAT(why_no_gpus(driver_with(works, nullptr)), HasSubstr("lacks functions"));
}

TEST(NcclLibrary, RefusesWhatIsTooOld) {
  const auto problem = [](int (*get_version)(int*)) {
    return nccl_of_version(get_version).problem;
  };
  EXPECT_EQ(problem([](int* version) { return *version = 21701, 0; }),
            "version 2.17.1 is too old: 2.18.0 or newer is needed");
  EXPECT_EQ(problem([](int* version) { return *version = 2708, 0; }),
            "version 2.7.8 is too old: 2.18.0 or newer is needed");
  EXPECT_EQ(problem([](int* version) { return *version = 21800, 0; }), "");
  EXPECT_EQ(problem([](int*) { return 3; }), "it does not report its version");
  EXPECT_EQ(problem(nullptr), "it does not report its version");
}

// Whatever this machine has: the real libraries must be loaded, or told of, without a word of ours.
TEST(GpuPresence, LooksAtThisMachine) {
  const GpuPresence found = describe_presence(loaded_gpu_functions(), loaded_nccl());
  for (const std::string& line : {found.gpus, found.driver, found.nvml, found.nccl})
    EXPECT_FALSE(line.empty());
  if (!loaded_gpu_functions().cuda_problem.empty()) {
    EXPECT_THAT(found.gpus, StartsWith("none ("));
  }
  if (loaded_nccl().problem.empty()) {
    EXPECT_GE(loaded_nccl().version, nccl_api::oldest_version);
  }
}

}  // namespace
}  // namespace hymn::test
