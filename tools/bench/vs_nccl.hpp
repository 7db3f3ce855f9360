// The plain call of NCCL that does the same as one of hymn's, for `hymn bench --vs nccl`.
#pragma once

#include <functional>
#include <memory>

#include "collectives/nccl/channel.hpp"
#include "collectives/nccl/shared_comm.hpp"
#include "hymn/world.hpp"
#include "tools/bench/cases.hpp"

namespace hymn {

/// A communicator of all ranks, made as any program makes one.
class PlainNccl {
 public:
  /// Collective. Throws UnsupportedError, the same on all ranks, where NCCL cannot be used, and
  /// TimeoutError where a rank does not come within `limit`.
  PlainNccl(World& world, Timeout limit);
  /// Ends the communicator, for which ranks wait for each other, a few seconds at most.
  ~PlainNccl();
  PlainNccl(const PlainNccl&) = delete;
  PlainNccl& operator=(const PlainNccl&) = delete;

  /// Enqueues the call of NCCL, or a group of calls. Empty where there is none: what it has not,
  /// and what it defines in another way than hymn. It must not outlive this.
  std::function<void()> call_for(const BenchCase& bench_case, const BenchShape& shape,
                                 const BenchCall& call, ReduceOp op, nccl_api::Stream stream);
  /// Throws BackendError when NCCL has found that it cannot go on.
  void check() { static_cast<void>(is_settled()); }

 private:
  bool is_settled();
  void await_settled();
  void settle(nccl_api::Result result) {
    if (result == nccl_api::in_progress) await_settled();
  }

  World& world_;
  Timeout limit_;
  std::shared_ptr<NcclChannel> channel_;  // of hymn's own group: where its functions are
  const nccl_api::Functions& nccl_;
  std::shared_ptr<SharedComm> shared_;
};

}  // namespace hymn
