// The backend "hymn": the life of a process group, and the collectives over one tensor.
#include "backend.hpp"

#include <c10/core/StreamGuard.h>
#include <hymn/hymn.h>

#include "errors.hpp"
#include "gil.hpp"
#include "waiter.hpp"

namespace hymn_torch {

Backend::Backend(const GroupRequest& request)
    : c10d::Backend(request.rank, request.size),
      name_(request.name),
      group_(std::make_shared<Group>(request)) {
  init();
}

Backend::~Backend() = default;

Call::Call(Backend& backend, c10d::OpType type, const char* name, const char* title,
           const Tensors* inputs, std::chrono::milliseconds limit)
    : backend_(backend),
      type_(type),
      name_(name),
      title_(title),
      inputs_(inputs),
      // Calls that are gathered have the limit of them all.
      limit_(backend.gathers_here() ? c10d::kUnsetTimeout : limit, backend.group_->limit()),
      group_(backend.group()),
      operation_(backend.gathers_here() ? backend.gathered_ : std::make_shared<Operation>()) {
  if (is_gathered()) return;
  operation_->set_limit(limit_.seconds());
  pending_ = backend.make_pending();  // the hook is told of those that are gathered as of one
}

// Parts that are in flight already keep their memory until they are over.
void Call::check(hymnResult_t result) {
  if (result == hymnSuccess) return;
  std::string text = hymnGetLastError();
  if (result == hymnUnsupportedError && !buffers().device().is_cpu())
    text += "; \"cpu:hymn,cuda:nccl\" as the backend leaves tensors on GPUs to torch's own NCCL";
  if (!is_gathered() && operation_->has_works()) Waiter::of_process().add(operation_);
  throw_error(result, text);
}

bool Call::is_message() const {
  return type_ == c10d::OpType::SEND || type_ == c10d::OpType::RECV ||
         type_ == c10d::OpType::RECVANYSOURCE;
}

// A message that waits for its peer must hold up no other one: hymn has streams for them, and the
// host waits until the tensor is ready.
void Call::enter_device() {
  if (stream_ != nullptr) return;
  const c10::Device device = buffers().device();
  if (is_gathered())
    throw_not_implemented(std::string("hymn: ") + name_ +
                          " of a tensor on a GPU cannot be gathered by _coalescing_manager");
  DeviceGroups& on_gpus = backend_.group_->on_gpus();
  if (is_message()) {
    group_ = on_gpus.for_message(device.index());
    return DeviceEnd(current_stream(device)).await();
  }
  group_ = on_gpus.for_collective(device.index());
  stream_ = &backend_.stream_on(device);
  stream_->follow_current();
}

Backend::WorkPtr Call::work() {
  if (stream_ != nullptr) {
    const c10::StreamGuard guard(stream_->stream());
    buffers().copy_back();
    operation_->set_end(DeviceEnd(stream_->stream()));
  }
  std::optional<Tensors> inputs;
  if (inputs_ != nullptr) inputs = *inputs_;
  return backend_.make_work(type_, title_, inputs, operation_, std::move(pending_));
}

Backend::WorkPtr Backend::make_work(c10d::OpType type, const char* title,
                                    const std::optional<Tensors>& inputs,
                                    const std::shared_ptr<Operation>& operation,
                                    std::shared_ptr<PendingOperation> pending) {
  const uint64_t number = ++sequence_;
  auto work = c10::make_intrusive<Work>(getRank(), type, title, inputs, operation, group_, number);
  if (pending) {
    operation->on_end(PendingOperation::at_end(std::move(pending), type, number));
    Waiter::of_process().add(operation);
  }
  return work;
}

// Without the mutex while Python is asked, whose lock its owner may hold.
const DeviceStream& Backend::stream_on(c10::Device device) {
  {
    const std::lock_guard<std::mutex> lock(streams_mutex_);
    const auto found = streams_.find(device.index());
    if (found != streams_.end()) return found->second;
  }
  const DeviceStream made(device);
  const std::lock_guard<std::mutex> lock(streams_mutex_);
  return streams_.emplace(device.index(), made).first->second;
}

void Backend::setTimeout(std::chrono::milliseconds limit) {
  group_->set_limit(std::chrono::duration<double>(limit).count());
}

void Backend::registerOnCompletionHook(CompletionHook::Function&& hook) {
  if (hook_) throw_value_error("hymn: the group has a completion hook already");
  onCompletionHook_ = hook;  // by which torch knows that there is one
  hook_ = std::make_shared<CompletionHook>(std::move(hook));
}

void Backend::waitForPendingWorks() {
  const WithoutGil waiting;
  if (hook_) hook_->wait_for_pending();
}

Backend::WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  Call call(*this, c10d::OpType::BROADCAST, "broadcast", "hymn:broadcast", &tensors,
            options.timeout);
  at::Tensor& tensor = only(tensors, call.name());
  const std::size_t count = count_of(tensor, call.name());
  const hymnDataType_t type = moved_type(tensor.scalar_type(), call.name());
  const int root = call.world_rank(options.rootRank);
  void* const data =
      options.rootRank == getRank() ? call.buffers().input(tensor) : call.buffers().output(tensor);
  call.operation().add_result(tensor);
  return call.run([&](hymnWork_t* work) {
    return hymnIBroadcast(data, count, type, root, call.group(), call.stream(), work);
  });
}

Backend::WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (tensors.size() == 1 && tensors.front().layout() != at::kStrided)
    return allreduce_sparse(tensors, options);
  Call call(*this, c10d::OpType::ALLREDUCE, "all_reduce", "hymn:all_reduce", &tensors,
            options.timeout);
  at::Tensor& tensor = only(tensors, call.name());
  const std::size_t count = count_of(tensor, call.name());
  const hymnDataType_t type = reduced_type(tensor.scalar_type(), call.name());
  const hymnOp_t op = reduction(options.reduceOp, call.name());
  void* const data = call.buffers().in_place(tensor);
  call.operation().add_result(tensor);
  return call.run([&](hymnWork_t* work) {
    return hymnIAllReduce(data, data, count, type, op, call.group(), call.stream(), work);
  });
}

Backend::WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  Call call(*this, c10d::OpType::REDUCE, "reduce", "hymn:reduce", &tensors, options.timeout);
  at::Tensor& tensor = only(tensors, call.name());
  const std::size_t count = count_of(tensor, call.name());
  const hymnDataType_t type = reduced_type(tensor.scalar_type(), call.name());
  const hymnOp_t op = reduction(options.reduceOp, call.name());
  const int root = call.world_rank(options.rootRank);
  void* const data = options.rootRank == getRank() ? call.buffers().in_place(tensor)
                                                   : call.buffers().input(tensor);
  call.operation().add_result(tensor);
  return call.run([&](hymnWork_t* work) {
    return hymnIReduce(data, data, count, type, op, root, call.group(), call.stream(), work);
  });
}

Backend::WorkPtr Backend::HYMN_TORCH_ALL_GATHER_SINGLE(at::Tensor& output, at::Tensor& input,
                                                       const c10d::AllgatherOptions& options) {
  const Tensors inputs{input};
  Call call(*this, c10d::OpType::_ALLGATHER_BASE, "all_gather_into_tensor",
            "hymn:all_gather_into_tensor", &inputs, options.timeout);
  const std::size_t count = count_of(input, call.name());
  if (count_of(output, call.name()) != count * call.size())
    throw_value_error(
        "hymn: all_gather_into_tensor: the output must have as many elements as the "
        "inputs of all ranks");
  const hymnDataType_t type = moved_type(type_of(output, inputs, call.name()), call.name());
  const void* const from = call.buffers().input(input);
  void* const to = call.buffers().output(output);
  call.operation().add_result(output);
  return call.run([&](hymnWork_t* work) {
    return hymnIAllGather(from, to, count, type, call.group(), call.stream(), work);
  });
}

Backend::WorkPtr Backend::HYMN_TORCH_REDUCE_SCATTER_SINGLE(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  const Tensors inputs{input};
  Call call(*this, c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor",
            "hymn:reduce_scatter_tensor", &inputs, options.timeout);
  const std::size_t count = count_of(output, call.name());
  if (count_of(input, call.name()) != count * call.size())
    throw_value_error(
        "hymn: reduce_scatter_tensor: the input must have as many elements as the "
        "outputs of all ranks");
  const hymnDataType_t type = reduced_type(type_of(output, inputs, call.name()), call.name());
  const hymnOp_t op = reduction(options.reduceOp, call.name());
  const void* const from = call.buffers().input(input);
  void* const to = call.buffers().output(output);
  call.operation().add_result(output);
  return call.run([&](hymnWork_t* work) {
    return hymnIReduceScatter(from, to, count, type, op, call.group(), call.stream(), work);
  });
}

namespace {

/// Elements that go to, or come from, each rank: `splits` are rows; none: equal parts.
std::vector<std::size_t> counts_of_splits(const at::Tensor& tensor,
                                          const std::vector<int64_t>& splits, std::size_t ranks,
                                          const char* side) {
  const std::string what = std::string("hymn: all_to_all_single: the ") + side;
  const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  if (splits.empty()) {
    if (rows % static_cast<int64_t>(ranks) != 0)
      throw_value_error(what + "'s first dimension is not divisible by the number of ranks");
    return std::vector<std::size_t>(ranks, static_cast<std::size_t>(tensor.numel()) / ranks);
  }
  if (splits.size() != ranks) throw_value_error(what + " splits are not one for each rank");
  std::vector<std::size_t> counts;
  int64_t sum = 0;
  for (const int64_t split : splits) {
    if (split < 0) throw_value_error(what + " splits have a negative number");
    sum += split;
    counts.push_back(static_cast<std::size_t>(rows == 0 ? 0 : split * (tensor.numel() / rows)));
  }
  if (sum != rows)
    throw_value_error(what + " splits do not add up to the size of its first dimension");
  return counts;
}

}  // namespace

Backend::WorkPtr Backend::HYMN_TORCH_ALL_TO_ALL_SINGLE(at::Tensor& output, at::Tensor& input,
                                                       std::vector<int64_t>& output_splits,
                                                       std::vector<int64_t>& input_splits,
                                                       const c10d::AllToAllOptions& options) {
  const Tensors inputs{input};
  Call call(*this, c10d::OpType::ALLTOALL_BASE, "all_to_all_single", "hymn:all_to_all_single",
            &inputs, options.timeout);
  count_of(input, call.name());
  count_of(output, call.name());
  const auto sends = counts_of_splits(input, input_splits, call.size(), "input");
  const auto recvs = counts_of_splits(output, output_splits, call.size(), "output");
  const hymnDataType_t type = moved_type(type_of(output, inputs, call.name()), call.name());
  const void* const from = call.buffers().input(input);
  void* const to = call.buffers().output(output);
  call.operation().add_result(output);
  if (input_splits.empty() && output_splits.empty()) {
    if (sends.front() != recvs.front())
      throw_value_error("hymn: all_to_all_single: input and output have different sizes");
    return call.run([&](hymnWork_t* work) {
      return hymnIAllToAll(from, to, sends.front(), type, call.group(), call.stream(), work);
    });
  }
  return call.run([&](hymnWork_t* work) {
    return hymnIAllToAllv(from, sends.data(), to, recvs.data(), type, call.group(), call.stream(),
                          work);
  });
}

Backend::WorkPtr Backend::gather_single(at::Tensor& output, at::Tensor& input,
                                        const c10d::GatherOptions& options) {
  const Tensors inputs{input};
  Call call(*this, c10d::OpType::GATHER, "gather_single", "hymn:gather_single", &inputs,
            options.timeout);
  const bool is_root = options.rootRank == getRank();
  const std::size_t count = count_of(input, call.name());
  if (is_root && count_of(output, call.name()) != count * call.size())
    throw_value_error(
        "hymn: gather_single: the output of the root must have as many elements as the "
        "inputs of all ranks");
  const hymnDataType_t type = moved_type(type_of(output, inputs, call.name()), call.name());
  const int root = call.world_rank(options.rootRank);
  const void* const from = call.buffers().input(input);
  void* const to = is_root ? call.buffers().output(output) : nullptr;
  if (is_root) call.operation().add_result(output);
  return call.run([&](hymnWork_t* work) {
    return hymnIGather(from, to, count, type, root, call.group(), call.stream(), work);
  });
}

Backend::WorkPtr Backend::barrier(const c10d::BarrierOptions& options) {
  Call call(*this, c10d::OpType::BARRIER, "barrier", "hymn:barrier", nullptr, options.timeout);
  return call.run(
      [&](hymnWork_t* work) { return hymnIBarrier(call.group(), call.stream(), work); });
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool /*wait_for_all*/) {
  barrier(options)->wait(kNoTimeout);
}

}  // namespace hymn_torch
