#include "examples/uneven_training/model.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace uneven {

// Weights lie in this order: from each feature to the hidden ones, biases of these, from each
// hidden one to the classes, biases of these.
Model::Model(const Samples& shape, const Settings& settings)
    : features_(shape.features),
      hidden_count_(settings.hidden),
      classes_(shape.classes),
      rate_(settings.rate),
      momentum_(settings.momentum),
      weights_((features_ + 1) * hidden_count_ + (hidden_count_ + 1) * classes_),
      state_(2 * weights_ + 2),
      hidden_(hidden_count_),
      outputs_(classes_) {
  // Not std::uniform_real_distribution: its numbers are not the same with every library.
  std::mt19937 random(static_cast<std::mt19937::result_type>(settings.seed));
  const auto fill = [&](std::span<float> part, std::size_t inputs) {
    const float most = std::sqrt(6.0f / static_cast<float>(inputs));
    for (float& weight : part)
      weight = most * (static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f);
  };
  const std::span<float> all = state_;
  fill(all.first(features_ * hidden_count_), features_);
  fill(all.subspan((features_ + 1) * hidden_count_, hidden_count_ * classes_), hidden_count_);
}

void Model::forward(std::span<const float> features) {
  const float* weight = state_.data();
  std::copy_n(weight + features_ * hidden_count_, hidden_count_, hidden_.begin());
  for (const float feature : features)
    for (float& hidden : hidden_) hidden += feature * *weight++;
  for (float& hidden : hidden_) hidden = std::max(hidden, 0.0f);

  weight = state_.data() + (features_ + 1) * hidden_count_;
  std::copy_n(weight + hidden_count_ * classes_, classes_, outputs_.begin());
  for (const float hidden : hidden_)
    for (float& output : outputs_) output += hidden * *weight++;
}

void Model::add(const Samples& samples, std::size_t sample, std::span<float> sums) {
  const std::span<const float> features = samples[sample];
  const auto label = static_cast<std::size_t>(samples.labels[sample]);
  forward(features);
  // Softmax; from here on the outputs are the gradient of the loss by them.
  const float most = *std::ranges::max_element(outputs_);
  float sum = 0;
  for (float& output : outputs_) sum += output = std::exp(output - most);
  for (float& output : outputs_) output /= sum;
  sums[weights_] -= std::log(std::max(outputs_[label], 1e-30f));
  sums[weights_ + 1] += 1;
  outputs_[label] -= 1;

  const std::size_t second = (features_ + 1) * hidden_count_;
  const float* weight = state_.data() + second;
  float* to = sums.data() + second;
  for (float& hidden : hidden_) {
    float slope = 0;
    for (const float output : outputs_) {
      slope += output * *weight++;
      *to++ += hidden * output;
    }
    hidden = hidden > 0 ? slope : 0;  // the gradient by what came into it
  }
  for (const float output : outputs_) *to++ += output;

  to = sums.data();
  for (const float feature : features)
    for (const float slope : hidden_) *to++ += feature * slope;
  for (const float slope : hidden_) *to++ += slope;
}

void Model::step(std::span<const float> sums) {
  const float count = sums[weights_ + 1];
  for (std::size_t i = 0; i < weights_; ++i) {
    float& speed = state_[weights_ + i];
    speed = momentum_ * speed + sums[i] / count;
    state_[i] -= rate_ * speed;
  }
  state_[2 * weights_] += sums[weights_];
  state_[2 * weights_ + 1] += count;
}

void Model::begin_epoch() { std::fill_n(state_.end() - 2, 2, 0.0f); }

double Model::mean_loss() const {
  return static_cast<double>(state_[2 * weights_]) / std::max(state_.back(), 1.0f);
}

std::size_t Model::samples() const { return static_cast<std::size_t>(state_.back()); }

double Model::accuracy(const Samples& samples) {
  std::size_t correct = 0;
  for (std::size_t sample = 0; sample < samples.size(); ++sample) {
    forward(samples[sample]);
    const auto best = std::ranges::max_element(outputs_) - outputs_.begin();
    correct += best == samples.labels[sample] ? 1 : 0;
  }
  return static_cast<double>(correct) /
         static_cast<double>(std::max<std::size_t>(samples.size(), 1));
}

}  // namespace uneven
