// What hymn uses of NCCL: names and values are those of its API reference (docs.nvidia.com).
#pragma once

#include <array>
#include <cstddef>
#include <limits>

#include "gpu/cuda_api.hpp"
#include "gpu/function.hpp"

namespace hymn::nccl_api {

using Result = int;
using Comm = struct CommHandle*;
using Stream = cuda_api::Stream;
using Window = struct WindowHandle*;
using DataType = int;
using Op = int;
constexpr Result success = 0;
constexpr Result unhandled_cuda_error = 1;
constexpr Result system_error = 2;
constexpr Result internal_error = 3;
constexpr Result invalid_argument = 4;
constexpr Result invalid_usage = 5;
constexpr Result remote_error = 6;
constexpr Result in_progress = 7;

constexpr DataType int8 = 0;
constexpr DataType uint8 = 1;
constexpr DataType int32 = 2;
constexpr DataType uint32 = 3;
constexpr DataType int64 = 4;
constexpr DataType uint64 = 5;
constexpr DataType float16 = 6;
constexpr DataType float32 = 7;
constexpr DataType float64 = 8;
constexpr DataType bfloat16 = 9;

constexpr Op sum = 0;
constexpr Op product = 1;
constexpr Op max = 2;
constexpr Op min = 3;
constexpr Op avg = 4;
/// The factor of a premultiplied sum is read from host memory during the call that makes it.
constexpr int factor_on_host = 1;

/// The oldest version that can be used, as NCCL writes versions: it is the first that splits
/// communicators.
constexpr int oldest_version = 21800;

/// Made by one rank, and given to the others, who find each other by it.
struct UniqueId {
  std::array<char, 128> bytes;
};

/// As version 2.18 has it, which newer ones read by `size` and `version`. What is not set they
/// choose themselves.
struct Config {
  static constexpr int unset = std::numeric_limits<int>::min();
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = oldest_version;
  int blocking = unset;
  int cga_cluster_size = unset;
  int min_ctas = unset;
  int max_ctas = unset;
  const char* net_name = nullptr;
  int split_share = unset;
};

/// A window at the same place of the memory of all ranks.
constexpr int symmetric_window = 1;

/// The color of a rank that takes part in a split, but is in no part.
constexpr int no_color = -1;

struct Functions {
  Function<Result(int*)> get_version{"ncclGetVersion"};
  Function<const char*(Result)> error_text{"ncclGetErrorString"};
  /// What NCCL last had to say, in this process.
  Function<const char*(Comm)> last_error{"ncclGetLastError"};
  Function<Result(UniqueId*)> get_unique_id{"ncclGetUniqueId"};
  Function<Result(Comm*, int, UniqueId, int, Config*)> init_rank{"ncclCommInitRankConfig"};
  Function<Result(Comm, int, int, Comm*, Config*)> split{"ncclCommSplit"};
  Function<Result(Comm, Result*)> get_async_error{"ncclCommGetAsyncError"};
  Function<Result(Comm)> finalize{"ncclCommFinalize"};
  Function<Result(Comm)> destroy{"ncclCommDestroy"};
  Function<Result(Comm)> abort{"ncclCommAbort"};
  // All calls of a thread between these two are one operation.
  Function<Result()> group_start{"ncclGroupStart"};
  Function<Result()> group_end{"ncclGroupEnd"};
  Function<Result(const void*, void*, std::size_t, DataType, Op, Comm, Stream)> all_reduce{
      "ncclAllReduce"};
  Function<Result(const void*, void*, std::size_t, DataType, int, Comm, Stream)> broadcast{
      "ncclBroadcast"};
  Function<Result(const void*, void*, std::size_t, DataType, Op, int, Comm, Stream)> reduce{
      "ncclReduce"};
  Function<Result(const void*, void*, std::size_t, DataType, Comm, Stream)> all_gather{
      "ncclAllGather"};
  Function<Result(const void*, void*, std::size_t, DataType, Op, Comm, Stream)> reduce_scatter{
      "ncclReduceScatter"};
  Function<Result(const void*, std::size_t, DataType, int, Comm, Stream)> send{"ncclSend"};
  Function<Result(void*, std::size_t, DataType, int, Comm, Stream)> recv{"ncclRecv"};
  Function<Result(Op*, void*, DataType, int, Comm)> make_premul_sum{"ncclRedOpCreatePreMulSum"};
  Function<Result(Op, Comm)> destroy_op{"ncclRedOpDestroy"};
  // From 2.19 on.
  Function<Result(void**, std::size_t)> allocate{"ncclMemAlloc"};
  Function<Result(void*)> release{"ncclMemFree"};
  Function<Result(Comm, void*, std::size_t, void**)> register_buffer{"ncclCommRegister"};
  Function<Result(Comm, void*)> deregister_buffer{"ncclCommDeregister"};
  // From 2.27 on. All ranks of the communicator make the first call; the second one is local.
  Function<Result(Comm, void*, std::size_t, Window*, int)> open_window{"ncclCommWindowRegister"};
  Function<Result(Comm, Window)> close_window{"ncclCommWindowDeregister"};
};

}  // namespace hymn::nccl_api
