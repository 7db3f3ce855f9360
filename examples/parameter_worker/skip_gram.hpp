// The model: skip-gram with negative sampling, as word2vec and fastText have it. From the vector of
// a word it tells its neighbours in the text from words that are drawn at random. Vectors of words
// come from the embedding; those of neighbours are here, the same on all trainers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "examples/parameter_worker/settings.hpp"
#include "examples/parameter_worker/text.hpp"

namespace parameter_worker {

/// The rows that words are made of.
struct Lookup {
  std::vector<RowId> rows;                         ///< each once
  std::vector<std::vector<std::uint32_t>> places;  ///< of each word's rows among these
};

/// What comes of a batch.
struct Gradients {
  std::vector<float> rows;    ///< of the lookup's: [rows x width]
  std::vector<float> shared;  ///< of the neighbours' vectors, then the loss, and of how many pairs
  double loss() const { return shared[shared.size() - 2]; }
  double pairs() const { return shared.back(); }
};

class SkipGram {
 public:
  SkipGram(const Text& text, const Settings& settings);

  Lookup look_up(std::span<const WordId> words) const;
  /// Of these places in the text.
  Lookup look_up_places(std::span<const std::uint32_t> places) const;
  /// The vectors of the words, [words x width]; `rows` are the lookup's, [rows x width].
  std::vector<float> vectors(const Lookup& lookup, std::span<const float> rows) const;

  /// Of these places in the text, with the rows of their lookup. The counterexamples of a place
  /// depend on it and on `draw`, not on who learns it.
  Gradients compute(std::span<const std::uint32_t> places, const Lookup& lookup,
                    std::span<const float> rows, std::uint64_t draw) const;
  /// One step of Adagrad with the sum of what all trainers have.
  void step(const Gradients& sum);
  /// What trainers must have alike.
  std::span<float> state() { return state_; }

 private:
  struct Pair;
  void learn_pair(const Pair& pair, WordId neighbour, bool is_one, Gradients& gradients) const;
  std::size_t shared_size() const { return text_.words.size() * settings_.width; }

  const Text& text_;
  const Settings& settings_;
  WordSampler sampler_;
  std::vector<std::vector<RowId>> rows_;  ///< of each word
  std::vector<float> state_;              ///< vectors, then the squares that Adagrad adds up
};

}  // namespace parameter_worker
