// The gradients of a context beside those of libtorch's own backward pass.
#include "hymn/torch.hpp"
#include "hymn/torch_remote_module.hpp"
#include "tests/rpc/torch/processes.hpp"

namespace hymn::test {
namespace {

namespace nn = ::torch::nn;
using hymn::torch::DistributedDataParallel;

constexpr int trainer_count = 4;

class PlainLinearImpl : public nn::Module {
 public:
  PlainLinearImpl(int in, int out)
      : linear_(register_module("linear", nn::Linear(nn::LinearOptions(in, out).bias(false)))) {}
  at::Tensor forward(const at::Tensor& input) { return linear_->forward(input); }

 private:
  nn::Linear linear_;
};
using LinearKind =
    hymn::torch::ModuleKind<PlainLinearImpl, at::Tensor, void(int, int), void(at::Tensor)>;
const LinearKind linear_kind("comparison.linear");
using LinearRef = rpc::RemoteRef<std::shared_ptr<PlainLinearImpl>>;

const auto remote_gradient = rpc::register_function(
    "comparison.gradient", [](const LinearRef& module, std::uint64_t context) {
      return hymn::torch::get_gradients(rpc::Agent::current(), context)
          .at(module.local_value()->parameters().front());
    });

void compare(Worker& worker, DistributedDataParallel<nn::Linear>& ddp, const at::Tensor& input) {
  std::optional<hymn::torch::Gradients> found;
  {
    const distributed::Context context(worker.agent);
    hymn::torch::backward(worker.agent, context, {ddp(input).norm()});
    found.emplace(hymn::torch::get_gradients(context));
  }
  ddp.module()->zero_grad();
  ddp(input).norm().backward();
  for (const at::Tensor& each : ddp.module()->parameters()) {
    require(found->contains(each), "a parameter has no gradient in the context");
    require_close(found->at(each), each.grad(), "gradients differ");
    require(found->at(each).data_ptr() != each.grad().data_ptr(), "gradients share their memory");
  }
}

void run_comparison(bool is_uneven) {
  on_processes(trainer_count, [&](Worker& worker) {
    ::torch::manual_seed(static_cast<std::uint64_t>(worker.rank));
    DistributedDataParallel ddp(nn::Linear(2, 3), worker.world.group());
    const int inputs = is_uneven && worker.rank % 2 == 0 ? 3 : 1;
    const auto train = [&] {
      for (int i = 0; i < inputs; ++i) compare(worker, ddp, at::rand({3, 2}));
    };
    if (is_uneven)
      hymn::torch::join(ddp, train);
    else
      train();
  });
}

TEST(DdpComparisonTest, test_ddp_comparison) { run_comparison(false); }
TEST(DdpComparisonTest, test_ddp_comparison_uneven_inputs) { run_comparison(true); }

TEST(DdpComparisonTest, test_ddp_dist_autograd_sparse_grads) {
  on_processes(trainer_count, [](Worker& worker) {
    ::torch::manual_seed(static_cast<std::uint64_t>(worker.rank));
    DistributedDataParallel ddp(nn::EmbeddingBag(nn::EmbeddingBagOptions(10, 3).sparse(true)),
                                worker.world.group());
    const at::Tensor words = at::randint(0, 10, {10}, at::kLong);
    const at::Tensor offsets = at::tensor({0, 4}, at::kLong);
    ddp(words, offsets).sum().backward();
    const distributed::Context context(worker.agent);
    hymn::torch::backward(worker.agent, context, {ddp(words, offsets).sum()});
    const auto found = hymn::torch::get_gradients(context);
    require(found.size() == 1, "there are other gradients than one");
    const at::Tensor weight = ddp.module()->weight;
    require(found.at(weight).is_sparse() && weight.grad().is_sparse(), "a gradient is dense");
    require_close(found.at(weight).to_dense(), weight.grad().to_dense(), "gradients differ");
  });
}

void compare_with_remote(Worker& worker, const std::string& device) {
  rpc::Agent& agent = worker.agent;
  hymn::torch::RemoteModule remote(agent, device, linear_kind, 10, 5);
  nn::Linear first(nn::LinearOptions(10, 5).bias(false));
  {
    const c10::NoGradGuard no_grad;
    first->weight.copy_(remote.parameters().front());
  }
  nn::Linear second(5, 1);
  const at::Tensor inputs = at::rand({10, 10});
  DistributedDataParallel ddp(second, worker.world.group());
  ddp(first(inputs)).sum().backward();
  const at::Tensor local = second->weight.grad().clone();

  const distributed::Context context(agent);
  hymn::torch::backward(agent, context, {ddp(remote(inputs)).sum()});
  const auto found = hymn::torch::get_gradients(context);
  worker.world.group().barrier();
  require_close(local, found.at(second->weight), "local gradients differ");
  require_close(second->weight.grad(), local, "the pass has changed the parameter's own gradient");
  require_close(first->weight.grad(),
                agent.rpc_sync("worker0", remote_gradient, remote.module_ref(), context.id()),
                "remote gradients differ");
  require_close(remote.forward_async(inputs).get().detach(), first(inputs).detach(),
                "the remote module gives something else");
}

TEST(DdpComparisonTest, test_ddp_dist_autograd_local_vs_remote) {
  on_processes(trainer_count, [](Worker& worker) {
    ::torch::manual_seed(static_cast<std::uint64_t>(worker.rank));
    for (const char* device : {"worker0/cpu", "worker0"}) compare_with_remote(worker, device);
  });
}

/// A layer of worker0, and one of this process with its weights.
struct LayerPair {
  LayerPair(rpc::Agent& agent, int in, int out)
      : remote(agent, "worker0/cpu", linear_kind, in, out),
        local(nn::LinearOptions(in, out).bias(false)) {
    const c10::NoGradGuard no_grad;
    local->weight.copy_(remote.parameters().front());
  }
  void require_gradient(rpc::Agent& agent, const distributed::Context& context) {
    require_close(local->weight.grad(),
                  agent.rpc_sync("worker0", remote_gradient, remote.module_ref(), context.id()),
                  "remote gradients differ");
  }

  hymn::torch::RemoteModule<LinearKind> remote;
  nn::Linear local;
};

/// Layers that are remote and layers that are averaged by turns: there the pass goes to another
/// process and back twice, and what the averaged layers take and give has been copied.
TEST(CudaDdpComparisonTest, test_ddp_dist_autograd_local_vs_remote_gpu) {
  on_processes(trainer_count, [](Worker& worker) {
    ::torch::manual_seed(static_cast<std::uint64_t>(worker.rank));
    rpc::Agent& agent = worker.agent;
    LayerPair first(agent, 10, 7);
    LayerPair third(agent, 5, 3);
    DistributedDataParallel second(nn::Linear(7, 5), worker.world.group());
    DistributedDataParallel fourth(nn::Linear(3, 1), worker.world.new_group({0, 1, 2, 3}));
    const at::Tensor inputs = at::rand({10, 10});
    const auto moved = [](const at::Tensor& tensor) { return tensor.clone(); };
    const auto loss = [&](auto& one, auto& other) {
      return fourth(moved(other(moved(second(moved(one(inputs))))))).sum();
    };
    loss(first.local, third.local).backward();
    const at::Tensor second_gradient = second.module()->weight.grad().clone();
    const at::Tensor fourth_gradient = fourth.module()->weight.grad().clone();

    const distributed::Context context(agent);
    hymn::torch::backward(agent, context, {loss(first.remote, third.remote)});
    const auto found = hymn::torch::get_gradients(context);
    worker.world.group().barrier();
    first.require_gradient(agent, context);
    third.require_gradient(agent, context);
    require_close(second_gradient, found.at(second.module()->weight), "second layer");
    require_close(fourth_gradient, found.at(fourth.module()->weight), "fourth layer");
  });
}

}  // namespace
}  // namespace hymn::test
