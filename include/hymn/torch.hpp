// hymn for programs that use libtorch: DistributedDataParallel, and collectives of tensors
// (docs/training.md). Link with hymn::training and torch.
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/nn/module.h>

#include <exception>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "hymn/torch_collectives.hpp"
#include "hymn/torch_devices.hpp"
#include "hymn/torch_reducer.hpp"

namespace hymn::torch {

namespace detail {

/// Those that can have gradients, each once: names may share one.
inline NamedTensors trained_parameters(const ::torch::nn::Module& module) {
  NamedTensors parameters;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const auto& item : module.named_parameters())
    if (item.value().requires_grad() && seen.insert(item.value().unsafeGetTensorImpl()).second)
      parameters.emplace_back(item.key(), item.value());
  return parameters;
}

inline NamedTensors buffers_of(const ::torch::nn::Module& module, bool wanted) {
  NamedTensors buffers;
  if (!wanted) return buffers;
  for (const auto& item : module.named_buffers())
    if (item.value().defined()) buffers.emplace_back(item.key(), item.value());
  return buffers;
}

}  // namespace detail

/// Trains a module on all ranks of a group, each with inputs of its own: gradients become averages
/// over the ranks while the backward pass goes on. As torch.nn.parallel.DistributedDataParallel.
///
/// `Module` is what a module is held by: torch::nn::Linear and other holders, or a shared_ptr.
///
/// All members make it, and then make the same backward passes. Gradients are averages when
/// backward() returns, of the last pass, where there are several. The group is the wrapper's own
/// meanwhile. Modules in the memory of the host; a gradient that is sparse is refused.
///
/// Throws Error: hymnUsageError on all ranks where their modules or options differ; in backward()
/// what reduction throws. After a failure the group has been given up: another group, and another
/// wrapper. docs/training.md
///
/// Thread safety: one call at a time.
template <class Module>
class DistributedDataParallel {
 public:
  explicit DistributedDataParallel(Module module, const Group& group, DdpOptions options = {})
      : module_(std::move(module)),
        reducer_(std::make_unique<detail::TorchReducer>(
            detail::require_devices(detail::trained_parameters(*module_), options),
            detail::buffers_of(*module_, options.broadcast_buffers), group, options)) {}

  /// The module's own.
  template <class... Inputs>
  auto forward(Inputs&&... inputs) {
    reducer_->before_forward();
    auto output = module_->forward(std::forward<Inputs>(inputs)...);
    reducer_->after_forward(tensors_of(output));
    return output;
  }
  template <class... Inputs>
  auto operator()(Inputs&&... inputs) {
    return forward(std::forward<Inputs>(inputs)...);
  }

  Module& module() { return module_; }
  const Module& module() const { return module_; }
  Module& operator->() { return module_; }

  /// While one of these lives backward passes reduce nothing: gradients add up on each rank, and
  /// the first pass after it reduces the sums. The same on all ranks.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(detail::TorchReducer& reducer)
        : reducer_(reducer), before_(reducer.set_sync(false)) {}
    ~NoSync() { reducer_.set_sync(before_); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    detail::TorchReducer& reducer_;
    bool before_;
  };
  NoSync no_sync() { return NoSync(*reducer_); }

  /// For hymnJoinCreate, where several are in one join.
  hymnJoinable_t joinable() const {
    hymnJoinable_t joinable = HYMN_JOINABLE_INIT;
    check(hymnGradientReducerJoinable(reducer_->handle(), &joinable));
    return joinable;
  }

 private:
  Module module_;
  std::unique_ptr<detail::TorchReducer> reducer_;
};

/// Runs `body`, which trains on this rank's inputs, however many; a rank that has run out shadows
/// those that have not (docs/join.md). What body throws is thrown.
template <class Module, class Body>
void join(DistributedDataParallel<Module>& model, Body body,
          hymnJoinDivisor_t divisor = hymnJoinDivisorInitial) {
  struct Run {
    Body& body;
    std::exception_ptr error{};
  };
  const auto guarded = [](void* user) {
    Run& run = *static_cast<Run*>(user);
    try {
      run.body();
      return hymnSuccess;
    } catch (const Error& error) {
      run.error = std::current_exception();
      return error.code();
    } catch (...) {
      run.error = std::current_exception();
      return hymnUsageError;
    }
  };
  hymnJoinOptions_t options = HYMN_JOIN_OPTIONS_INIT;
  options.divisor = divisor;
  const hymnJoinable_t joinable = model.joinable();
  hymnJoin_t handle = nullptr;
  check(hymnJoinCreate(&joinable, 1, &options, &handle));
  const std::unique_ptr<std::remove_pointer_t<hymnJoin_t>, hymnResult_t (*)(hymnJoin_t)> owner(
      handle, &hymnJoinFree);
  Run run{body};
  const hymnResult_t result = hymnJoinRun(handle, guarded, &run);
  if (run.error) std::rethrow_exception(run.error);
  check(result);
}

}  // namespace hymn::torch
