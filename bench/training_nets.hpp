// Two nets with start values and inputs that follow from a formula: bench/torch_ddp_gloo.py has the
// same.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace bench {

namespace nn = torch::nn;

/// Numbers between -0.5 and 0.5 that look random; each `seed` gives others.
inline at::Tensor some_numbers(at::IntArrayRef sizes, std::int64_t seed) {
  const at::Tensor index = at::arange(c10::multiply_integers(sizes), at::kDouble);
  const at::Tensor waves =
      at::sin(index * 12.9898 + static_cast<double>(seed) * 78.233) * 43758.5453;
  return (waves - waves.floor() - 0.5).to(at::kFloat).view(sizes);
}

struct Net : nn::Module {
  virtual at::Tensor forward(const at::Tensor& input) = 0;
  virtual std::vector<std::int64_t> input_sizes() const = 0;
  /// What the output should be.
  virtual at::Tensor target(const at::Tensor& input) const = 0;
};

/// Attention and a feed-forward net, each with a norm after it.
struct TransformerBlock : Net {
  static constexpr const char* title = "transformer block";
  static constexpr double rate = 5;
  static constexpr std::int64_t batch = 2, length = 32, width = 512, heads = 8;

  TransformerBlock() {
    qkv = register_module("qkv", nn::Linear(width, 3 * width));
    out = register_module("out", nn::Linear(width, width));
    norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({width})));
    up = register_module("up", nn::Linear(width, 4 * width));
    down = register_module("down", nn::Linear(4 * width, width));
    norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({width})));
  }
  at::Tensor forward(const at::Tensor& x) override {
    const at::Tensor y = norm1(x + attend(x));
    return norm2(y + down(at::relu(up(y))));
  }
  std::vector<std::int64_t> input_sizes() const override { return {batch, length, width}; }
  at::Tensor target(const at::Tensor& input) const override { return input.flip({2}); }

  at::Tensor attend(const at::Tensor& x) {
    const at::Tensor all =
        qkv(x).view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
    const double scale = 1 / std::sqrt(static_cast<double>(width / heads));
    const at::Tensor weights = at::softmax(at::matmul(all[0], all[1].transpose(2, 3)) * scale, -1);
    return out(at::matmul(weights, all[2]).transpose(1, 2).reshape({batch, length, width}));
  }

  nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
};

/// Five convolutions; the picture shrinks while channels become more.
struct ConvNet : Net {
  static constexpr const char* title = "convolution net";
  static constexpr double rate = 0.1;

  ConvNet() {
    const std::int64_t channels[] = {3, 64, 128, 256, 512, 512};
    for (std::size_t i = 0; i + 1 < std::size(channels); ++i)
      layers.push_back(register_module(
          "conv" + std::to_string(i),
          nn::Conv2d(nn::Conv2dOptions(channels[i], channels[i + 1], 3).padding(1))));
    last = register_module("last", nn::Linear(512, 10));
  }
  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = input;
    for (nn::Conv2d& layer : layers) {
      x = at::relu(layer(x));
      if (x.size(2) > 2) x = at::max_pool2d(x, 2);
    }
    return last(x.mean({2, 3}));
  }
  std::vector<std::int64_t> input_sizes() const override { return {8, 3, 32, 32}; }
  at::Tensor target(const at::Tensor& input) const override {
    return input.flatten(1).narrow(1, 0, 10);
  }

  std::vector<nn::Conv2d> layers;
  nn::Linear last{nullptr};
};

/// With the same start values everywhere.
template <class OneNet>
std::shared_ptr<Net> make_net() {
  auto net = std::make_shared<OneNet>();
  const c10::NoGradGuard no_grad;
  std::int64_t seed = 0;
  for (auto& item : net->named_parameters()) {
    at::Tensor& value = item.value();
    ++seed;
    if (value.dim() > 1) {
      const double inputs = static_cast<double>(value.numel() / value.size(0));
      value.copy_(some_numbers(value.sizes(), seed) * (std::sqrt(12.0) / std::sqrt(inputs)));
    } else {
      value.fill_(
          item.key().find("norm") == 0 && item.key().find("weight") != std::string::npos ? 1 : 0);
    }
  }
  return net;
}

inline double gradient_mb(const Net& net) {
  double values = 0;
  for (const at::Tensor& each : net.parameters()) values += static_cast<double>(each.numel());
  return values * 4 / (1 << 20);
}

}  // namespace bench
