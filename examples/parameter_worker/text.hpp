// The text that is learnt from: its words, those that are drawn as counterexamples, and the rows of
// the embedding that each word is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace parameter_worker {

using WordId = std::uint32_t;
using RowId = std::uint32_t;

struct Text {
  std::vector<std::string> words;     ///< each once, the most frequent first
  std::vector<std::uint64_t> counts;  ///< how often each of them occurs
  std::vector<WordId> tokens;         ///< the text itself
  static auto object_fields(auto& self) { return std::tie(self.words, self.counts, self.tokens); }
};

/// The texts of all files below a folder, one after the other. Throws std::runtime_error where
/// there is nothing to learn from.
Text read_text(const std::string& folder);

/// A word's vector is the mean of these rows: one that is its own, and one for each run of three to
/// five of its letters. So words that are spelt alike begin alike. Rows are found by hash, as
/// fastText does: there is no list of all that can occur, and two may share a row.
std::vector<RowId> rows_of(const std::string& word, std::uint32_t rows);

/// The same numbers on every machine (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// From 0 up to, but without, 1.
  double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

/// Draws words as often as they occur to the power of 3/4, as word2vec does.
class WordSampler {
 public:
  explicit WordSampler(const Text& text);
  WordId draw(Random& random) const { return table_[random.next() % table_.size()]; }

 private:
  std::vector<WordId> table_;
};

/// The places in the text that an epoch learns from, in its order. Of the most frequent words most
/// are left out, which say little of their neighbours.
std::vector<std::uint32_t> places_of_epoch(const Text& text, std::uint64_t seed, int epoch);

}  // namespace parameter_worker
