// A model that is spread over processes: an embedding and a layer at one worker, two layers with
// each of four trainers.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hymn/torch.hpp"
#include "hymn/torch_remote_module.hpp"
#include "tests/rpc/torch/processes.hpp"

namespace hymn::test {

namespace nn = ::torch::nn;
using hymn::torch::DistributedDataParallel;

inline constexpr int embedded_rows = 2;
inline constexpr int sparse_width = 3;
inline constexpr int dense_width = 2;
inline constexpr int hidden_width = 3;
inline constexpr int output_width = 1;
inline const std::vector<int> trainer_ranks{0, 1, 2, 3};
inline constexpr int parameter_rank = 4;
inline constexpr int master_rank = 5;

/// Where the trainers' gradients are averaged.
enum class Reduced : std::uint8_t { nowhere, outside, inside };

class EmbedderImpl : public nn::Module {
 public:
  EmbedderImpl(int rows, int width) : bag_(register_module("bag", nn::EmbeddingBag(rows, width))) {
    const c10::NoGradGuard no_grad;
    bag_->weight.fill_(0.5);
  }
  at::Tensor forward(const at::Tensor& words) {
    return bag_->forward(words, at::arange(words.size(0)));
  }

 private:
  nn::EmbeddingBag bag_;
};

inline nn::Linear plain_linear(int in, int out) {
  nn::Linear linear(nn::LinearOptions(in, out).bias(false));
  const c10::NoGradGuard no_grad;
  linear->weight.fill_(1);
  linear->weight[0][0] = -1;
  return linear;
}

class NetImpl : public nn::Module {
 public:
  NetImpl(int in, int out) : linear_(register_module("linear", plain_linear(in, out))) {}
  at::Tensor forward(const at::Tensor& input) { return at::relu(linear_->forward(input)); }

 private:
  nn::Linear linear_;
};

inline const hymn::torch::ModuleKind<EmbedderImpl, at::Tensor, void(int, int), void(at::Tensor)>
    embedder_kind("hybrid.embedder");
inline const hymn::torch::ModuleKind<NetImpl, at::Tensor, void(int, int), void(at::Tensor)>
    net_kind("hybrid.net");
using EmbedderRef = rpc::RemoteRef<std::shared_ptr<EmbedderImpl>>;
using NetRef = rpc::RemoteRef<std::shared_ptr<NetImpl>>;

struct Features {
  at::Tensor dense{};
  at::Tensor sparse{};
  at::Tensor values{};
  static auto object_fields(auto& self) { return std::tie(self.dense, self.sparse, self.values); }
};

/// In tens of parts each, of two examples.
inline std::vector<Features> halves(const Features& all) {
  std::vector<Features> parts;
  const auto dense = all.dense.split(2);
  const auto sparse = all.sparse.split(2);
  const auto values = all.values.split(2);
  for (std::size_t i = 0; i < dense.size(); ++i) parts.push_back({dense[i], sparse[i], values[i]});
  return parts;
}

/// Every example has its opposite, so that the gradients of all of them add up to nothing.
inline std::vector<Features> training_examples() {
  constexpr int count = 16;
  Features all{at::zeros({count, dense_width}), at::zeros({count}, at::kLong), at::zeros({count})};
  int i = 0;
  for (const int value : {-1, 1})
    for (const int x : {-value, value})
      for (const int y : {value, -value})
        for (const int z : {0, 1}) {
          all.dense[i][0] = x;
          all.dense[i][1] = y;
          all.sparse[i] = z;
          all.values[i++] = value;
        }
  std::vector<Features> shares;
  const auto each = static_cast<std::int64_t>(count / trainer_ranks.size());
  for (std::int64_t start = 0; start < count; start += each)
    shares.push_back({all.dense.narrow(0, start, each), all.sparse.narrow(0, start, each),
                      all.values.narrow(0, start, each)});
  return shares;
}

class HybridImpl : public nn::Module {
 public:
  HybridImpl(rpc::Agent& agent, EmbedderRef embedder, NetRef net, const ProcessGroup* inside)
      : agent_(agent),
        embedder_(std::move(embedder)),
        net_(std::move(net)),
        first_(register_module("first", plain_linear(dense_width, dense_width))),
        second_(register_module("second", plain_linear(hidden_width, output_width))) {
    if (inside != nullptr) reduced_.emplace(second_, *inside);
  }

  at::Tensor forward(const Features& input) {
    const at::Tensor sparse =
        agent_.rpc_sync(embedder_.owner(), embedder_kind.forward, embedder_, input.sparse);
    const at::Tensor both = at::cat({first_->forward(input.dense), sparse}, 1);
    const at::Tensor hidden = agent_.rpc_sync(net_.owner(), net_kind.forward, net_, both);
    return reduced_ ? reduced_->forward(hidden) : second_->forward(hidden);
  }
  at::Tensor first() const { return first_->weight; }
  at::Tensor second() const { return second_->weight; }

 private:
  rpc::Agent& agent_;
  EmbedderRef embedder_;
  NetRef net_;
  nn::Linear first_;
  nn::Linear second_;
  std::optional<DistributedDataParallel<nn::Linear>> reduced_;
};

/// The gradients of parameters that are reduced, and of those that are not.
using TrainedGradients = std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>;

class Trainer {
 public:
  Trainer(Worker& worker, const EmbedderRef& embedder, const NetRef& net, Reduced reduced)
      : agent_(worker.agent) {
    if (reduced != Reduced::nowhere) group_.emplace(worker.world.new_group(trainer_ranks));
    model_ = std::make_shared<HybridImpl>(worker.agent, embedder, net,
                                          reduced == Reduced::inside ? &*group_ : nullptr);
    if (reduced == Reduced::outside) outside_.emplace(model_, *group_);
    (reduced == Reduced::outside ? averaged_ : own_).push_back(model_->first());
    (reduced == Reduced::nowhere ? own_ : averaged_).push_back(model_->second());
  }

  TrainedGradients train(const Features& batch, bool has_less, bool is_uneven) {
    if (!is_uneven) {
      step(batch, batch.values);
      return gradients_;
    }
    std::vector<Features> parts = halves(batch);
    if (has_less) parts.resize(parts.size() / 2);
    hymn::torch::join(*outside_, [&] {
      for (const Features& part : parts) step(part, batch.values);
    });
    return gradients_;
  }
  void end() {
    outside_.reset();
    model_.reset();
    if (group_) group_->destroy();
  }

 private:
  void step(const Features& part, const at::Tensor& values) {
    const distributed::Context context(agent_);
    const at::Tensor output = outside_ ? outside_->forward(part) : model_->forward(part);
    hymn::torch::backward(agent_, context, {(output * values).sum()});
    const auto found = hymn::torch::get_gradients(context);
    gradients_ = {};
    for (const at::Tensor& each : averaged_) gradients_.first.push_back(found.at(each));
    for (const at::Tensor& each : own_) gradients_.second.push_back(found.at(each));
  }

  rpc::Agent& agent_;
  std::optional<ProcessGroup> group_;
  std::shared_ptr<HybridImpl> model_;
  std::optional<DistributedDataParallel<std::shared_ptr<HybridImpl>>> outside_;
  std::vector<at::Tensor> averaged_;
  std::vector<at::Tensor> own_;
  TrainedGradients gradients_;
};

}  // namespace hymn::test
