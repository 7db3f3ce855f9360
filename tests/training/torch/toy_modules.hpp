// Modules for tests. Not in namespace hymn, where `torch`, as TORCH_MODULE writes it, is hymn's.
#pragma once

#include <torch/torch.h>

#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace toy {

namespace nn = torch::nn;

/// Two nets side by side, of which a step may use one.
struct BranchesImpl : nn::Module {
  BranchesImpl() {
    left = register_module("left", make());
    right = register_module("right", make());
  }
  static nn::Sequential make() {
    return nn::Sequential(nn::Linear(nn::LinearOptions(2, 10).bias(false)), nn::ReLU(),
                          nn::Linear(nn::LinearOptions(10, 4).bias(false)), nn::ReLU());
  }
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    return {at::softmax(left->forward(x), 1), at::softmax(right->forward(x), 1)};
  }
  nn::Sequential left{nullptr}, right{nullptr};
};
TORCH_MODULE(Branches);

/// Each way to return tensors, some of which are used.
struct ReturnsImpl : nn::Module {
  ReturnsImpl() {
    first = register_module("first", nn::Linear(2, 3));
    second = register_module("second", nn::Linear(2, 3));
    third = register_module("third", nn::Linear(2, 3));
  }
  std::tuple<at::Tensor, std::vector<at::Tensor>, std::map<std::string, at::Tensor>> forward(
      const at::Tensor& x) {
    return {first(x), {second(x), at::Tensor{}}, {{"third", third(x)}}};
  }
  nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
};
TORCH_MODULE(Returns);

/// Layers that use one parameter.
struct SharedImpl : nn::Module {
  SharedImpl() {
    one = register_parameter("one", at::ones({100}));
    again = register_parameter("again", one);
  }
  at::Tensor forward(const at::Tensor& scale) { return one * scale + again * scale; }
  at::Tensor one, again;
};
TORCH_MODULE(Shared);

struct ConvNetImpl : nn::Module {
  explicit ConvNetImpl(const std::vector<at::MemoryFormat>& formats) {
    const int channels[] = {8, 5, 4, 6, 2};
    for (std::size_t i = 0; i < formats.size(); ++i) {
      layers.push_back(register_module(
          "conv" + std::to_string(i),
          nn::Conv2d(nn::Conv2dOptions(channels[i], channels[i + 1], 3).padding(1))));
      layers.back()->weight.set_data(layers.back()->weight.contiguous(formats[i]));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (nn::Conv2d& layer : layers) x = layer(x);
    return x;
  }
  std::vector<nn::Conv2d> layers;
};
TORCH_MODULE(ConvNet);

/// Of two nets one for each input.
struct EitherImpl : BranchesImpl {
  at::Tensor forward(const at::Tensor& x, bool is_left) {
    return is_left ? left->forward(x) : right->forward(x);
  }
};
TORCH_MODULE(Either);

/// Layers of one width: a step goes through those that it is told.
struct PathsImpl : nn::Module {
  explicit PathsImpl(std::size_t depth) {
    for (std::size_t i = 0; i < depth; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), nn::Linear(3, 3)));
  }
  at::Tensor forward(at::Tensor x, const std::vector<std::size_t>& path) {
    for (const std::size_t layer : path) x = at::tanh(layers[layer](x));
    return x;
  }
  std::vector<nn::Linear> layers;
};
TORCH_MODULE(Paths);

/// A sum of words, whose gradient is sparse.
struct WordNetImpl : nn::Module {
  WordNetImpl() {
    words = register_module("words", nn::Embedding(nn::EmbeddingOptions(12, 3).sparse(true)));
    out = register_module("out", nn::Linear(3, 2));
  }
  at::Tensor forward(const at::Tensor& numbers) { return out(words(numbers).sum(0)); }
  nn::Embedding words{nullptr};
  nn::Linear out{nullptr};
};
TORCH_MODULE(WordNet);

/// A table of its own, with gradients that are sparse.
struct PickerImpl : nn::Module {
  PickerImpl() { table = register_parameter("table", at::ones({10, 3})); }
  at::Tensor forward(const at::Tensor& rows) { return at::embedding(table, rows, -1, false, true); }
  at::Tensor table;
};
TORCH_MODULE(Picker);

/// Its one layer, or none.
struct OptionalImpl : nn::Module {
  OptionalImpl() { one = register_module("one", nn::Linear(2, 2)); }
  at::Tensor forward(const at::Tensor& x, bool uses) { return uses ? one(x) : x; }
  nn::Linear one{nullptr};
};

/// Gives on what it gets, and throws in its backward pass.
struct Boom : torch::autograd::Function<Boom> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*,
                                               const torch::autograd::tensor_list&) {
    throw std::logic_error("boom");
  }
};

/// Returns a leaf that nobody else knows, too.
struct WithLeafImpl : nn::Module {
  WithLeafImpl() { one = register_module("one", nn::Linear(2, 2)); }
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    return {one(x), at::zeros({}).requires_grad_()};
  }
  nn::Linear one{nullptr};
};

}  // namespace toy
