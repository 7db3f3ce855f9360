#include "examples/parameter_worker/skip_gram.hpp"

#include <algorithm>
#include <cmath>

namespace parameter_worker {

/// A word's vector, and its gradient.
struct SkipGram::Pair {
  std::span<const float> vector;
  std::span<float> gradient;
};

SkipGram::SkipGram(const Text& text, const Settings& settings)
    : text_(text), settings_(settings), sampler_(text), state_(2 * shared_size()) {
  for (const std::string& word : text.words) rows_.push_back(rows_of(word, settings.rows));
}

Lookup SkipGram::look_up(std::span<const WordId> words) const {
  Lookup lookup;
  for (const WordId word : words)
    lookup.rows.insert(lookup.rows.end(), rows_[word].begin(), rows_[word].end());
  std::ranges::sort(lookup.rows);
  const auto rest = std::ranges::unique(lookup.rows);
  lookup.rows.erase(rest.begin(), rest.end());
  for (const WordId word : words) {
    std::vector<std::uint32_t>& places = lookup.places.emplace_back();
    for (const RowId row : rows_[word])
      places.push_back(static_cast<std::uint32_t>(std::ranges::lower_bound(lookup.rows, row) -
                                                  lookup.rows.begin()));
  }
  return lookup;
}

Lookup SkipGram::look_up_places(std::span<const std::uint32_t> places) const {
  std::vector<WordId> words;
  for (const std::uint32_t place : places) words.push_back(text_.tokens[place]);
  return look_up(words);
}

std::vector<float> SkipGram::vectors(const Lookup& lookup, std::span<const float> rows) const {
  const std::size_t width = settings_.width;
  std::vector<float> vectors(lookup.places.size() * width);
  for (std::size_t word = 0; word < lookup.places.size(); ++word) {
    const float share = 1.0f / static_cast<float>(lookup.places[word].size());
    for (const std::uint32_t place : lookup.places[word])
      for (std::size_t k = 0; k < width; ++k)
        vectors[word * width + k] += share * rows[place * width + k];
  }
  return vectors;
}

void SkipGram::learn_pair(const Pair& pair, WordId neighbour, bool is_one,
                          Gradients& gradients) const {
  const std::size_t width = settings_.width;
  const float* const vector = state_.data() + neighbour * width;
  float* const gradient = gradients.shared.data() + neighbour * width;
  float product = 0;
  for (std::size_t k = 0; k < width; ++k) product += pair.vector[k] * vector[k];
  // -log of the probability that the logistic function gives what is so.
  gradients.shared[shared_size()] += std::log1p(std::exp(is_one ? -product : product));
  const float slope = 1.0f / (1.0f + std::exp(-product)) - (is_one ? 1.0f : 0.0f);
  for (std::size_t k = 0; k < width; ++k) {
    pair.gradient[k] += slope * vector[k];
    gradient[k] += slope * pair.vector[k];
  }
}

Gradients SkipGram::compute(std::span<const std::uint32_t> places, const Lookup& lookup,
                            std::span<const float> rows, std::uint64_t draw) const {
  const std::size_t width = settings_.width;
  const std::vector<float> words = vectors(lookup, rows);
  Gradients gradients{std::vector<float>(lookup.rows.size() * width),
                      std::vector<float>(shared_size() + 2)};
  std::vector<float> own(width);
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::ranges::fill(own, 0.0f);
    const Pair pair{std::span(words).subspan(i * width, width), own};
    Random random(draw * text_.tokens.size() + places[i]);
    for (int offset = -settings_.window; offset <= settings_.window; ++offset) {
      const std::int64_t place = std::int64_t{places[i]} + offset;
      if (offset == 0 || place < 0 || place >= std::ssize(text_.tokens)) continue;
      const WordId neighbour = text_.tokens[static_cast<std::size_t>(place)];
      learn_pair(pair, neighbour, true, gradients);
      for (int n = 0; n < settings_.counterexamples; ++n)
        if (const WordId other = sampler_.draw(random); other != neighbour)
          learn_pair(pair, other, false, gradients);
      ++gradients.shared.back();
    }
    const float share = 1.0f / static_cast<float>(lookup.places[i].size());
    for (const std::uint32_t row : lookup.places[i])
      for (std::size_t k = 0; k < width; ++k) gradients.rows[row * width + k] += share * own[k];
  }
  return gradients;
}

void SkipGram::step(const Gradients& sum) {
  const std::size_t size = shared_size();
  for (std::size_t i = 0; i < size; ++i) {
    const float gradient = sum.shared[i];
    if (gradient == 0) continue;
    float& squares = state_[size + i];
    squares += gradient * gradient;
    state_[i] -= settings_.rate * gradient / std::sqrt(squares);
  }
}

}  // namespace parameter_worker
