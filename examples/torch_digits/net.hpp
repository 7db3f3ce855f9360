// What is trained, and on what.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "examples/uneven_training/deal.hpp"
#include "examples/uneven_training/samples.hpp"

namespace digits {

/// Two convolutions and a linear layer, for small square pictures. There is no dropout and no batch
/// norm: the loss of a picture depends on no other one, and on nothing random.
struct NetImpl : torch::nn::Module {
  NetImpl(std::int64_t side, std::int64_t classes);
  at::Tensor forward(at::Tensor pictures);

  torch::nn::Conv2d first{nullptr};
  torch::nn::Conv2d second{nullptr};
  torch::nn::Linear last{nullptr};
};
TORCH_MODULE(Net);

struct Batch {
  at::Tensor pictures;
  at::Tensor labels;
};

/// Samples as tensors, which are views of them.
class Pictures {
 public:
  /// Throws std::runtime_error where features are no square of at least 4 times 4.
  explicit Pictures(const uneven::Samples& samples);

  std::int64_t side() const { return all_.pictures.size(-1); }
  const Batch& all() const { return all_; }
  /// That of a rank, in the order in which it takes them; empty where it has run out.
  Batch batch(const uneven::Deal& deal, int rank, int epoch, std::size_t number) const;

 private:
  Batch all_;
};

/// All weights, one after the other.
at::Tensor flat(const Net& net);

/// The part of these that is told right.
double accuracy(Net& net, const Batch& batch);

}  // namespace digits
