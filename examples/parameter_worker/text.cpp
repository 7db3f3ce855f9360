#include "examples/parameter_worker/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <hymn/shard.hpp>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <unordered_map>

#include "examples/corpus_stats/corpus.hpp"

namespace parameter_worker {
namespace {

/// A word that is more of the text than this share is left out in part.
constexpr double frequent = 1e-3;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

void add_words(const std::string& path, std::vector<std::string>& words) {
  std::ifstream in(path, std::ios::binary);
  std::string word;
  for (char c = 0; in.get(c);) {
    if (is_letter(c)) {
      word += static_cast<char>(c | 0x20);
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
}

Text number(const std::vector<std::string>& words) {
  corpus::Words counts;
  for (const std::string& word : words) ++counts[word];
  Text text;
  std::unordered_map<std::string_view, WordId> ids;
  for (corpus::WordCount& each : corpus::top_words(counts, counts.size())) {
    text.words.push_back(std::move(each.word));
    text.counts.push_back(each.count);
  }
  for (WordId id = 0; id < text.words.size(); ++id) ids.emplace(text.words[id], id);
  for (const std::string& word : words) text.tokens.push_back(ids.at(word));
  return text;
}

std::uint64_t hash_of(std::string_view letters) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char letter : letters) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace

Text read_text(const std::string& folder) {
  std::vector<std::string> words;
  for (const corpus::File& file : corpus::find_files(folder).files) add_words(file.path, words);
  Text text = number(words);
  if (text.words.size() < 2 || text.tokens.size() > std::numeric_limits<std::uint32_t>::max())
    throw std::runtime_error(
        fmt::format("{}: {} words, of which {} are different, cannot be learnt", folder,
                    text.tokens.size(), text.words.size()));
  return text;
}

std::vector<RowId> rows_of(const std::string& word, std::uint32_t rows) {
  const std::string marked = '<' + word + '>';
  const std::string_view view = marked;
  std::vector<RowId> found = {static_cast<RowId>(hash_of(view) % rows)};
  for (std::size_t length = 3; length <= 5 && length < view.size(); ++length)
    for (std::size_t first = 0; first + length <= view.size(); ++first)
      found.push_back(static_cast<RowId>(hash_of(view.substr(first, length)) % rows));
  return found;
}

std::uint64_t Random::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

WordSampler::WordSampler(const Text& text) {
  double sum = 0;
  for (const std::uint64_t count : text.counts) sum += std::pow(count, 0.75);
  const double size = 32.0 * static_cast<double>(text.words.size());
  for (WordId word = 0; word < text.words.size(); ++word) {
    const double share = std::pow(text.counts[word], 0.75) / sum;
    table_.insert(table_.end(), static_cast<std::size_t>(std::ceil(share * size)), word);
  }
}

std::vector<std::uint32_t> places_of_epoch(const Text& text, std::uint64_t seed, int epoch) {
  const std::uint64_t own_seed = seed + 1 + static_cast<std::uint64_t>(epoch);
  Random random(own_seed);
  std::vector<std::uint32_t> kept;
  for (std::uint32_t place = 0; place < text.tokens.size(); ++place) {
    const double share = static_cast<double>(text.counts[text.tokens[place]]) /
                         static_cast<double>(text.tokens.size());
    if (random.fraction() < std::sqrt(frequent / share)) kept.push_back(place);
  }
  std::vector<std::uint32_t> order;
  for (const std::size_t i : hymn::shard({0, kept.size()}, 0, 1, {.shuffle = own_seed}))
    order.push_back(kept[i]);
  return order;
}

}  // namespace parameter_worker
