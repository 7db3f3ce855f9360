// Failures of CUDA and NCCL as hymn's errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "gpu/cuda_calls.hpp"
#include "gpu/nccl_calls.hpp"
#include "hymn/error.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

BackendError failure_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const BackendError& error) {
    return error;
  }
  return BackendError("nothing was thrown", "", 0);
}

cuda_api::Functions talking_driver() {
  cuda_api::Functions cuda;
  cuda.error_name.pointer = [](int, const char** name) { return *name = "CUDA_ERROR_X", 0; };
  cuda.error_text.pointer = [](int, const char** text) { return *text = "it went wrong", 0; };
  return cuda;
}

TEST(CudaErrors, CarryTheDriversWordsItsCodeAndARemedy) {
  cuda_api::Functions cuda = talking_driver();
  cuda.allocate.pointer = [](cuda_api::Pointer*, std::size_t) { return cuda_api::out_of_memory; };
  cuda_api::Pointer memory = 0;
  const BackendError error =
      failure_of([&] { call(cuda, cuda.allocate, &memory, std::size_t{1}); });
  EXPECT_EQ(error.backend(), "CUDA");
  EXPECT_EQ(error.code(), 2);
  EXPECT_EQ(error.problem(), "cuMemAlloc_v2 failed with CUDA_ERROR_X: it went wrong");
  EXPECT_THAT(error.context().remedy, HasSubstr("nvidia-smi"));
  cuda.allocate.pointer = [](cuda_api::Pointer* made, std::size_t) { return *made = 7, 0; };
  call(cuda, cuda.allocate, &memory, std::size_t{1});
  EXPECT_EQ(memory, 7u);
}

TEST(CudaErrors, NeedNoWordsOfTheDriver) {
  EXPECT_EQ(words_of({}, 719), "error 719");
  cuda_api::Functions cuda = talking_driver();
  cuda.error_text.pointer = [](int, const char**) { return 1; };
  EXPECT_EQ(words_of(cuda, 719), "CUDA_ERROR_X");
  cuda.error_name.pointer = [](int, const char** name) { return *name = nullptr, 0; };
  EXPECT_EQ(words_of(cuda, 719), "error 719");
}

TEST(CudaErrors, TellOfAFunctionThatIsNotThere) {
  const cuda_api::Functions cuda;
  try {
    call(cuda, cuda.synchronize);
    FAIL() << "nothing was thrown";
  } catch (const UnsupportedError& error) {
    EXPECT_EQ(error.problem(), "libcuda.so.1 has no cuCtxSynchronize");
    EXPECT_FALSE(error.context().remedy.empty());
  }
}

TEST(NcclErrors, CarryBothKindsOfWords) {
  nccl_api::Functions nccl;
  nccl.get_version.pointer = [](int*) { return nccl_api::unhandled_cuda_error; };
  int version = 0;
  EXPECT_EQ(failure_of([&] { call(nccl, nccl.get_version, &version); }).problem(),
            "ncclGetVersion failed with error 1");
  nccl.error_text.pointer = [](int) { return "unhandled cuda error"; };
  nccl.last_error.pointer = [](nccl_api::Comm) { return "Cuda failure 'out of memory'"; };
  const BackendError error = failure_of([&] { call(nccl, nccl.get_version, &version); });
  EXPECT_EQ(error.problem(),
            "ncclGetVersion failed with unhandled cuda error: Cuda failure 'out of memory'");
  EXPECT_EQ(error.backend(), "NCCL");
  EXPECT_EQ(error.code(), 1);
  EXPECT_THAT(error.context().remedy, StartsWith("look at the CUDA error"));
}

TEST(NcclErrors, ProgressIsNone) {
  nccl_api::Functions nccl;
  nccl.get_version.pointer = [](int*) { return nccl_api::in_progress; };
  int version = 0;
  EXPECT_EQ(call(nccl, nccl.get_version, &version), nccl_api::in_progress);
}

}  // namespace
}  // namespace hymn::test
