// hymn for programs that use libtorch: DistributedDataParallel, and collectives of tensors
// (docs/training.md). Link with hymn::training and torch.
#pragma once

#include "hymn/standard.hpp"  // first

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "hymn/torch_collectives.hpp"
#include "hymn/torch_options.hpp"
#include "hymn/torch_parameters.hpp"
#include "hymn/torch_recovery.hpp"
#include "hymn/torch_reducer.hpp"

namespace hymn::torch {

/// Trains a module on all ranks of a group, each with inputs of its own: gradients become averages
/// over the ranks while the backward pass goes on. As torch.nn.parallel.DistributedDataParallel.
///
/// `Module` is what a module is held by: torch::nn::Linear and other holders, or a shared_ptr.
///
/// All members make it, and then make the same backward passes. Gradients are averages when
/// backward() returns, of the last pass, where there are several. The group is the wrapper's own
/// meanwhile. Modules in the memory of the host. Sparse gradients are those of embeddings that ask
/// for them, and reduced when all others are.
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
            detail::trained_parameters(*module_),
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

  /// The rows of tables whose gradients are sparse that can have entries, by the names of the
  /// parameters: values alone travel then, and averages have an entry for each of these rows. The
  /// same on all ranks, between passes; no rows: indices travel again. hymnUsageError for a name
  /// that there is not, and for a gradient that is dense; rows that are wrong are told, on all
  /// ranks, by the next backward pass.
  void set_sparse_metadata(const std::map<std::string, at::Tensor>& rows) {
    for (const auto& [name, indices] : rows) reducer_->set_sparse_metadata(name, indices);
  }
  /// Throws Error, naming the parameters, where some were never ready in the last iteration, as the
  /// next forward() does; then the group is given up, for the others wait.
  void require_finished() { reducer_->require_finished("require_finished()"); }
  /// Gives the group up, with this reason, on all ranks.
  void give_up(const std::string& reason) { reducer_->give_up(reason); }

  /// For hymnJoinCreate, where several are in one join.
  hymnJoinable_t joinable() const {
    hymnJoinable_t joinable = HYMN_JOINABLE_INIT;
    detail::check_own(hymnGradientReducerJoinable(reducer_->handle(), &joinable));
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
    DistributedDataParallel<Module>& model;
    Body& body;
    std::exception_ptr error{};
  };
  const auto guarded = [](void* user) {
    Run& run = *static_cast<Run*>(user);
    try {
      run.body();
      run.model.require_finished();
      return hymnSuccess;
    } catch (const Error& error) {
      run.error = std::current_exception();
      return error.code();
    } catch (const std::exception& error) {
      run.error = std::current_exception();
      run.model.give_up(error.what());
      return hymnUsageError;
    } catch (...) {
      run.error = std::current_exception();
      return hymnUsageError;
    }
  };
  hymnJoinOptions_t options = HYMN_JOIN_OPTIONS_INIT;
  options.divisor = divisor;
  const hymnJoinable_t joinable = model.joinable();
  hymnJoin_t handle = nullptr;
  detail::check_own(hymnJoinCreate(&joinable, 1, &options, &handle));
  const Owned<hymnJoin_t> owner(handle, &hymnJoinFree);
  Run run{model, body};
  const hymnResult_t result = hymnJoinRun(handle, guarded, &run);
  if (run.error) std::rethrow_exception(run.error);
  detail::check_in("join()", result);
}

}  // namespace hymn::torch
