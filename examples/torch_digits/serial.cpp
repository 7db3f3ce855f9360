#include "examples/torch_digits/serial.hpp"

namespace digits {
namespace {

std::vector<Batch> batches_in(const Pictures& pictures, const uneven::Deal& deal, Position at) {
  std::vector<Batch> batches;
  for (int rank = 0; rank < deal.ranks(); ++rank)
    if (at.batch < deal.batches_of(rank))
      batches.push_back(pictures.batch(deal, rank, at.epoch, at.batch));
  return batches;
}

/// Leaves in the net's gradients what an all_reduce of the ranks' would: their sum in the order of
/// ranks, divided once.
void average_rank_by_rank(Net& net, const std::vector<Batch>& batches, int ranks, bool bf16) {
  const auto rounded = [&](const at::Tensor& values) {
    return bf16 ? values.to(at::kBFloat16).to(at::kFloat) : values;
  };
  std::vector<at::Tensor> sums;
  for (const Batch& batch : batches) {
    net->zero_grad();
    torch::nn::functional::cross_entropy(net->forward(batch.pictures), batch.labels).backward();
    std::size_t i = 0;
    for (const at::Tensor& each : net->parameters()) {
      const at::Tensor gradient = rounded(each.grad());
      if (sums.size() == i)
        sums.push_back(gradient.clone());
      else
        sums[i] += gradient;
      ++i;
    }
  }
  std::size_t i = 0;
  for (at::Tensor& each : net->parameters()) each.mutable_grad() = rounded(sums[i++] / ranks);
}

/// A mean over the ranks of means over their batches, as one loss.
void average_as_one(Net& net, const std::vector<Batch>& batches, int ranks) {
  std::vector<at::Tensor> pictures;
  std::vector<at::Tensor> labels;
  std::vector<at::Tensor> weights;
  for (const Batch& batch : batches) {
    const std::int64_t samples = batch.labels.size(0);
    pictures.push_back(batch.pictures);
    labels.push_back(batch.labels);
    weights.push_back(at::full({samples}, 1.0 / static_cast<double>(samples * ranks)));
  }
  net->zero_grad();
  const at::Tensor losses = torch::nn::functional::cross_entropy(
      net->forward(at::cat(pictures)), at::cat(labels),
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone));
  losses.dot(at::cat(weights)).backward();
}

}  // namespace

void train_serially(Serial way, Net& net, const Pictures& pictures,
                    const std::vector<Stretch>& stretches, const Settings& settings) {
  torch::optim::SGD optimizer(net->parameters(), settings.rate);
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const int ranks = stretches[i].ranks;
    const uneven::Deal deal = deal_for(ranks, pictures.all().labels.size(0), settings);
    const Position end =
        i + 1 < stretches.size() ? stretches[i + 1].begin : Position{settings.epochs, 0};
    for (Position at = stretches[i].begin; at < end;) {
      if (at.batch >= steps_in(deal, settings)) {
        at = {at.epoch + 1, 0};
        continue;
      }
      const std::vector<Batch> batches = batches_in(pictures, deal, at);
      switch (way) {
        case Serial::rank_by_rank:
          average_rank_by_rank(net, batches, ranks, settings.bf16);
          break;
        case Serial::as_one_batch:
          average_as_one(net, batches, ranks);
          break;
      }
      optimizer.step();
      ++at.batch;
    }
  }
}

}  // namespace digits
