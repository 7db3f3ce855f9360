// The backend "hymn" of torch.distributed: c10d's calls as hymn's.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "call_limit.hpp"
#include "completion_hook.hpp"
#include "device_stream.hpp"
#include "operation.hpp"
#include "python_site.hpp"
#include "torch_version.hpp"
#include "work.hpp"
#include "world.hpp"

namespace hymn_torch {

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

class Backend final : public c10d::Backend {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  /// Waits for the other members.
  explicit Backend(const GroupRequest& request);
  ~Backend() override;

  const std::string getBackendName() const override { return "hymn"; }
  /// Gives the group up on all its ranks.
  void give_up(const std::string& reason) { group_->abort(reason); }
  hymnGroup_t group() const { return group_->handle(); }
  /// The limit of operations that start from now on.
  void setTimeout(std::chrono::milliseconds limit) HYMN_TORCH_OVERRIDE_SINCE_15;
  void abort() HYMN_TORCH_OVERRIDE_SINCE_15 { give_up("torch has aborted the process group"); }

#if HYMN_TORCH_DERIVES_GROUPS
  // derived.cpp: groups that are made of this one
  using OptionsPtr = c10::intrusive_ptr<Options>;
  using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
  OptionsPtr getBackendOptions() override;
  bool supportsSplitting() const override { return true; }
  /// Called by all members; null for who is not among these.
  BackendPtr split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                   const OptionsPtr& options) override;
  bool supportsShrinking() const override { return true; }
  /// Called by those that stay alone.
  BackendPtr shrink(const std::vector<int64_t>& excluded, int flags,
                    const OptionsPtr& options) override;
  /// With processes of other jobs, which the store knows.
  BackendPtr merge(const c10::intrusive_ptr<c10d::Store>& store, const OptionsPtr& options,
                   const int& rank, const int& size) override;
#endif

  // backend.cpp
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr HYMN_TORCH_ALL_GATHER_SINGLE(at::Tensor& output, at::Tensor& input,
                                       const c10d::AllgatherOptions& options) override;
  WorkPtr HYMN_TORCH_REDUCE_SCATTER_SINGLE(at::Tensor& output, at::Tensor& input,
                                           const c10d::ReduceScatterOptions& options) override;
  WorkPtr HYMN_TORCH_ALL_TO_ALL_SINGLE(at::Tensor& output, at::Tensor& input,
                                       std::vector<int64_t>& output_splits,
                                       std::vector<int64_t>& input_splits,
                                       const c10d::AllToAllOptions& options) override;
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input,
                        const c10d::GatherOptions& options) HYMN_TORCH_OVERRIDE_SINCE_15;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  /// Every limit that passes tells who is missing: all of them.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

  // sparse.cpp
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;

  // lists.cpp: a tensor for each rank
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;

  // coalesced.cpp: several calls as one
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr HYMN_TORCH_ALL_GATHER_SINGLES(Tensors& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& options) override;
  WorkPtr HYMN_TORCH_REDUCE_SCATTER_SINGLES(Tensors& outputs, Tensors& inputs,
                                            const c10d::ReduceScatterOptions& options) override;
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  // messages.cpp
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  /// Is told of each operation that has completed, and must not wait for others.
  void registerOnCompletionHook(CompletionHook::Function&& hook) override;
  void waitForPendingWorks() override;

  // How many collectives this rank has called.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }

 private:
  friend class Call;

  WorkPtr receive(Tensors& tensors, int source, int tag);
  WorkPtr make_work(c10d::OpType type, const char* title, const std::optional<Tensors>& inputs,
                    const std::shared_ptr<Operation>& operation,
                    std::shared_ptr<PendingOperation> pending);
  /// Null: nobody wants to be told of the operation that starts.
  std::shared_ptr<PendingOperation> make_pending() const {
    return hook_ ? std::make_shared<PendingOperation>(hook_) : nullptr;
  }
  void cancel_coalescing();
  const DeviceStream& stream_on(c10::Device device);

  const std::string name_;
  std::shared_ptr<Group> group_;
  uint64_t sequence_ = 0;
  std::shared_ptr<CompletionHook> hook_;
  /// Between the beginning and the end of coalescing: the calls of the thread that has begun it.
  std::shared_ptr<Operation> gathered_;
  std::atomic<std::thread::id> gathers_on_{};
  std::mutex streams_mutex_;
  std::map<c10::DeviceIndex, DeviceStream> streams_;  ///< of collectives on GPUs
  bool gathers_here() const { return gathers_on_.load() == std::this_thread::get_id(); }
};

/// One call of the backend: its memory, and how it is started.
class Call {
 public:
  /// `name` is that of torch's users, for messages; `title` what the profiler shows.
  Call(Backend& backend, c10d::OpType type, const char* name, const char* title,
       const Tensors* inputs, std::chrono::milliseconds limit = c10d::kUnsetTimeout);

  const char* name() const { return name_; }
  /// Known for tensors on a GPU when it starts.
  hymnGroup_t group() const { return group_; }
  std::size_t size() const { return static_cast<std::size_t>(backend_.getSize()); }
  std::size_t rank() const { return static_cast<std::size_t>(backend_.getRank()); }
  int world_rank(int64_t rank) const { return backend_.group_->world_rank(rank); }
  bool is_gathered() const { return backend_.gathers_here(); }
  void require_reduction(hymnDataType_t type, hymnOp_t op) {
    backend_.group_->require_reduction(type, op);
  }
  /// What hymn's functions are given; null: it is in the order of no stream.
  hymnStream_t stream() const { return stream_ == nullptr ? nullptr : stream_->handle(); }
  Buffers& buffers() { return operation_->buffers(); }
  Operation& operation() { return *operation_; }

  /// Starts one part of it: `start(work)` calls a function of hymn's that has an I in its name.
  template <class Start>
  void start(Start&& start) {
    if (!buffers().device().is_cpu()) enter_device();
    hymnWork_t work = nullptr;
    check(start(&work));
    if (!is_gathered()) return operation_->add_work(work);
    operation_->note_gathered();
    hymnWorkFree(work);
  }
  /// What the caller waits for.
  Backend::WorkPtr work();
  template <class Start>
  Backend::WorkPtr run(Start&& start) {
    this->start(std::forward<Start>(start));
    return work();
  }

 private:
  void check(hymnResult_t result);
  void enter_device();
  bool is_message() const;

  Backend& backend_;
  c10d::OpType type_;
  const char* name_;
  const char* title_;
  const Tensors* inputs_;
  PythonSite site_;
  CallLimit limit_;
  hymnGroup_t group_;
  const DeviceStream* stream_ = nullptr;
  std::shared_ptr<Operation> operation_;
  std::shared_ptr<PendingOperation> pending_;
};

}  // namespace hymn_torch
