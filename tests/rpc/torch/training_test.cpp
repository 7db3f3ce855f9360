// Optimizers and modules that are spread over workers, and what becomes of a pass that fails.
#include "hymn/torch_remote_module.hpp"
#include "tests/rpc/torch/processes.hpp"

namespace hymn::test {
namespace {

namespace nn = ::torch::nn;

const hymn::torch::ModuleKind<nn::LinearImpl, at::Tensor, void(int, int), void(at::Tensor)> linear(
    "training.linear");
const hymn::torch::OptimizerKind sgd("training.sgd", [](std::vector<at::Tensor> parameters) {
  return std::make_unique<::torch::optim::SGD>(std::move(parameters), 0.1);
});
const auto scale =
    rpc::register_function("training.scale", [](const at::Tensor& input) { return input * 3; });
const auto split = rpc::register_function("training.split", [](const at::Tensor& input) {
  return std::vector<at::Tensor>{input.narrow(0, 0, 1), at::zeros({2}), input.narrow(0, 1, 1)};
});
/// Through the next worker, and back to who calls.
const auto bounce = rpc::register_function("training.bounce", [](const at::Tensor& input) {
  rpc::Agent agent = rpc::Agent::current();
  const int next = (agent.self().rank + 1) % static_cast<int>(agent.workers().size());
  return agent.rpc_sync(next, scale, input + 1) * 2;
});

/// Of parameters that several steps have changed.
constexpr Tolerance after_steps{1e-4, 1e-6};

/// Only one worker drives, the others serve.
void on_first(int size, const std::function<void(rpc::Agent&)>& body) {
  on_processes(size, [&](Worker& worker) {
    if (worker.rank == 0) body(worker.agent);
    worker.world.group().barrier();
    for (int i = 0; i < 300 && distributed::Context::count(worker.agent) != 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    require(distributed::Context::count(worker.agent) == 0, "a context is still there");
  });
}

TEST(TorchRpc, GradientsGoThroughWorkers) {
  on_first(3, [](rpc::Agent& agent) {
    for (const int to : {0, 1, 2}) {
      const at::Tensor input = at::rand({2, 2}).requires_grad_();
      const distributed::Context context(agent);
      // Several roots, and a value that goes to two workers.
      const at::Tensor there = agent.rpc_sync(to, bounce, input);
      const at::Tensor again = agent.rpc_sync(to, scale, input);
      hymn::torch::backward(agent, context, {there.sum(), (again * again).sum()});
      const auto found = hymn::torch::get_gradients(context);
      require_close(found.at(input), 6 + 18 * input.detach(), "the gradient is another one");
      require(!input.grad().defined(), "the tensor's own gradient was touched");
    }
  });
}

TEST(TorchRpc, GradientsComeOfPartsOfResults) {
  on_first(2, [](rpc::Agent& agent) {
    const at::Tensor input = at::rand({2, 3}).requires_grad_();
    const distributed::Context context(agent);
    const std::vector<at::Tensor> parts = agent.rpc_sync(1, split, input);
    require(!parts[1].requires_grad(), "a constant requires a gradient");
    hymn::torch::backward(agent, context, {(2 * parts[2]).sum()});
    const at::Tensor gradient = hymn::torch::get_gradients(context).at(input);
    require_close(gradient[0], at::zeros({3}), "what was not used has a gradient");
    require_close(gradient[1], at::full({3}, 2.0), "the gradient is another one");
  });
}

TEST(TorchRpc, CopiesOfKeptValuesHaveGradients) {
  on_first(2, [](rpc::Agent& agent) {
    for (const int to : {0, 1}) {
      const at::Tensor input = at::rand({3}).requires_grad_();
      const distributed::Context context(agent);
      const at::Tensor copy = agent.remote(to, scale, input).to_here();
      require(copy.requires_grad(), "the copy has no gradient");
      hymn::torch::backward(agent, context, {copy.sum()});
      require(at::equal(hymn::torch::get_gradients(context).at(input), at::full({3}, 3.0)),
              "the gradient is another one");
    }
  });
}

TEST(TorchRpc, ViewsThatConjugateTravel) {
  on_first(2, [](rpc::Agent& agent) {
    const at::Tensor input = at::complex(at::rand({3}), at::rand({3}));
    require(at::equal(agent.rpc_sync(1, scale, input.conj()), (input.conj() * 3).resolve_conj()),
            "it was not conjugated");
  });
}

TEST(TorchRpc, PassesAddUp) {
  on_first(2, [](rpc::Agent& agent) {
    const at::Tensor input = at::rand({3}).requires_grad_();
    const distributed::Context context(agent);
    const at::Tensor loss = agent.rpc_sync(1, scale, input).sum();
    hymn::torch::backward(agent, context, {loss}, true);
    hymn::torch::backward(agent, context, {loss}, true);
    require_close(hymn::torch::get_gradients(context).at(input), at::full({3}, 6.0),
                  "the passes do not add up");
  });
}

TEST(TorchRpc, ErrorsOfAPassArriveAndNothingIsLeft) {
  on_first(2, [](rpc::Agent& agent) {
    const at::Tensor input = at::rand({3}).requires_grad_();
    const distributed::Context context(agent);
    const at::Tensor loss = agent.rpc_sync(1, scale, input).sum();
    input.register_hook(
        [](const at::Tensor&) -> at::Tensor { throw std::out_of_range("no gradient wanted"); });
    try {
      hymn::torch::backward(agent, context, {loss});
    } catch (const std::out_of_range&) {
      return;
    }
    require(false, "the error has not arrived");
  });
}

TEST(TorchRpc, OutsideOfContextsTensorsAreValues) {
  on_first(2, [](rpc::Agent& agent) {
    const at::Tensor input = at::rand({3}).requires_grad_();
    require(!agent.rpc_sync(1, scale, input).requires_grad(), "a value requires a gradient");
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kLong, at::kBool, at::kHalf})
      for (const auto& sizes : {std::vector<std::int64_t>{}, {0}, {3, 0}, {2, 3}, {64, 64}}) {
        const at::Tensor given = at::ones(sizes).to(type);
        const at::Tensor came = agent.rpc_sync<at::Tensor>(1, "training.same", given);
        require(at::equal(given, came) && came.scalar_type() == type, "a tensor has changed");
      }
    const at::Tensor sparse = at::eye(3).to_sparse();
    require(at::equal(agent.rpc_sync<at::Tensor>(1, "training.same", sparse).to_dense(),
                      sparse.to_dense()),
            "a sparse tensor has changed");
    require(!agent.rpc_sync<at::Tensor>(1, "training.same", at::Tensor()).defined(),
            "an undefined tensor has changed");
  });
}
const auto same =
    rpc::register_function("training.same", [](const at::Tensor& given) { return given; });

void train_beside_local(rpc::Agent& agent) {
  hymn::torch::RemoteModule near(agent, "worker0", linear, 3, 4);
  hymn::torch::RemoteModule far(agent, "worker1/cpu", linear, 4, 1);
  nn::Linear first(3, 4);
  nn::Linear second(4, 1);
  std::vector<at::Tensor> own;
  std::vector<rpc::RemoteRef<at::Tensor>> refs;
  const auto pair_up = [&](auto& remote, nn::Linear& local) {
    const c10::NoGradGuard no_grad;
    for (std::size_t i = 0; i < 2; ++i) local->parameters()[i].copy_(remote.parameters()[i]);
    for (const at::Tensor& each : local->parameters()) own.push_back(each);
    for (const auto& each : remote.remote_parameters()) refs.push_back(each);
  };
  pair_up(near, first);
  pair_up(far, second);
  hymn::torch::DistributedOptimizer optimizer(agent, sgd, refs);
  ::torch::optim::SGD local(own, 0.1);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor input = at::rand({5, 3});
    {
      const distributed::Context context(agent);
      hymn::torch::backward(agent, context, {far(near(input).relu()).pow(2).sum()});
      optimizer.step(context);
    }
    local.zero_grad();
    second(first(input).relu()).pow(2).sum().backward();
    local.step();
    for (std::size_t i = 0; i < 2; ++i) {
      require_close(near.parameters()[i], first->parameters()[i], "the first module differs",
                    after_steps);
      require_close(far.parameters()[i], second->parameters()[i], "the second module differs",
                    after_steps);
    }
  }
}

TEST(TorchRpc, OptimizersStepWhereParametersLive) { on_first(2, train_beside_local); }

TEST(TorchRpc, ModulesLiveWhereTheyAreMade) {
  on_first(2, [](rpc::Agent& agent) {
    hymn::torch::RemoteModule module(agent, "worker1", linear, 3, 2);
    require(module.module_ref().owner().name == "worker1", "it lives elsewhere");
    require(module.forward_async(at::ones({1, 3})).get().sizes() == at::IntArrayRef({1, 2}),
            "it gives something else");
    for (const char* device : {"worker1/cuda:0", "nobody"}) {
      bool is_refused = false;
      try {
        hymn::torch::RemoteModule wrong(agent, device, linear, 3, 2);
      } catch (const UsageError&) {
        is_refused = true;
      }
      require(is_refused, std::string(device) + " was not refused");
    }
  });
}

}  // namespace
}  // namespace hymn::test
