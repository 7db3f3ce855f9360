// The corpus: which files there are, who reads which, and what is counted in them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace corpus {

using Count = std::uint64_t;

struct File {
  std::string path;
  Count size = 0;
};

struct Listing {
  std::vector<File> files;           ///< by path
  std::vector<std::string> skipped;  ///< path and reason
};

/// The regular files below `folder`, each once, whatever links lead to it. Links to folders are not
/// followed. Throws when there is nothing to read.
Listing find_files(const std::filesystem::path& folder);

/// Which files each rank reads (indices): the largest first, each to the rank with the least so
/// far.
using Shares = std::vector<std::vector<std::size_t>>;
Shares deal(const std::vector<File>& files, int ranks);

/// How often each word occurs. A word is a run of the letters a to z, of either case.
using Words = std::unordered_map<std::string, Count>;
/// Longer runs of letters are cut: they are data, not words.
inline constexpr std::size_t longest_word = 40;

struct Statistics {
  std::array<Count, 256> bytes{};                      ///< how often each byte occurs
  std::array<Count, longest_word + 1> word_lengths{};  ///< how many words have each length
  Words words;

  Statistics& operator+=(const Statistics& other);
};

/// One file's line of the file table.
struct FileRow {
  Count readable = 0;
  Count bytes = 0;
  Count lines = 0;
  Count words = 0;
  friend bool operator==(const FileRow&, const FileRow&) = default;
};

/// Counts one file and adds it to `statistics`.
FileRow count_file(const File& file, Statistics& statistics);

struct WordCount {
  std::string word;
  Count count = 0;
  friend bool operator==(const WordCount&, const WordCount&) = default;
};

Count total(std::span<const Count> counts);

/// The most frequent words first, then by the alphabet.
std::vector<WordCount> top_words(const Words& words, std::size_t how_many);

}  // namespace corpus
