// Modules of libtorch that live at another worker.
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/nn/module.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hymn/torch_rpc.hpp"

namespace hymn::torch {

/// "worker0", "worker0/cpu": whom to call. Throws UsageError for another device.
inline std::string worker_of_device(const std::string& remote_device) {
  const std::size_t slash = remote_device.find('/');
  if (slash != std::string::npos && remote_device.substr(slash + 1) != "cpu")
    throw UsageError(
        "modules live in the memory of the host, not on " + remote_device.substr(slash + 1),
        {.remedy = "give the name of a worker, or that and \"/cpu\""});
  return remote_device.substr(0, slash);
}

template <class Module, class Output, class Construct, class Forward>
class ModuleKind;

/// A kind of module that others may make at this worker: registered by all of them, as functions
/// are. `Args` are the arguments of its constructor, `Inputs` those of forward().
///
///     const ModuleKind<LinearImpl, at::Tensor, void(int, int), void(at::Tensor)> linear("linear");
template <class Module, class Output, class... Args, class... Inputs>
class ModuleKind<Module, Output, void(Args...), void(Inputs...)> {
 public:
  using Held = std::shared_ptr<Module>;
  using Ref = rpc::RemoteRef<Held>;

  explicit ModuleKind(const std::string& name)
      : make(rpc::register_function(
            name + ".make", [](Args... args) { return std::make_shared<Module>(args...); })),
        forward(rpc::register_function(
            name + ".forward",
            [](Ref module, Inputs... inputs) { return module.local_value()->forward(inputs...); })),
        parameters(rpc::register_function(name + ".parameters",
                                          [](Ref module) {
                                            // Values alone: they are no part of a pass.
                                            std::vector<at::Tensor> values;
                                            for (const auto& each :
                                                 module.local_value()->parameters())
                                              values.push_back(each.detach());
                                            return values;
                                          })),
        parameter_refs(rpc::register_function(name + ".parameter_refs", [](Ref module) {
          std::vector<rpc::RemoteRef<at::Tensor>> refs;
          rpc::Agent agent = rpc::Agent::current();
          for (const auto& each : module.local_value()->parameters())
            refs.push_back(agent.make_ref(at::Tensor(each)));
          return refs;
        })) {}

  const rpc::Function<Held(Args...)> make;
  const rpc::Function<Output(Ref, Inputs...)> forward;
  const rpc::Function<std::vector<at::Tensor>(Ref)> parameters;
  const rpc::Function<std::vector<rpc::RemoteRef<at::Tensor>>(Ref)> parameter_refs;
};

template <class Kind>
class RemoteModule;

/// A module at another worker. In a context gradients go through it.
template <class Module, class Output, class... Args, class... Inputs>
class RemoteModule<ModuleKind<Module, Output, void(Args...), void(Inputs...)>> {
 public:
  using Kind = ModuleKind<Module, Output, void(Args...), void(Inputs...)>;

  /// Throws what its constructor throws there.
  RemoteModule(rpc::Agent& agent, const std::string& remote_device, const Kind& kind,
               const Args&... args)
      : agent_(agent),
        kind_(kind),
        module_(agent.remote(worker_of_device(remote_device), kind.make, args...)) {
    module_.made().get();
  }

  Output forward(const Inputs&... inputs) { return forward_async(inputs...).get(); }
  Future<Output> forward_async(const Inputs&... inputs) {
    return agent_.rpc_async(module_.owner(), kind_.forward, module_, inputs...);
  }
  Output operator()(const Inputs&... inputs) { return forward(inputs...); }

  /// Copies of their values.
  std::vector<at::Tensor> parameters() const {
    return agent_.rpc_sync(module_.owner(), kind_.parameters, module_);
  }
  /// For DistributedOptimizer.
  std::vector<rpc::RemoteRef<at::Tensor>> remote_parameters() const {
    return agent_.rpc_sync(module_.owner(), kind_.parameter_refs, module_);
  }
  const typename Kind::Ref& module_ref() const { return module_; }

 private:
  rpc::Agent& agent_;
  const Kind& kind_;
  typename Kind::Ref module_;
};

template <class Module, class Output, class... Args, class... Inputs>
RemoteModule(rpc::Agent&, const std::string&,
             const ModuleKind<Module, Output, void(Args...), void(Inputs...)>&, const Args&...)
    -> RemoteModule<ModuleKind<Module, Output, void(Args...), void(Inputs...)>>;

}  // namespace hymn::torch
