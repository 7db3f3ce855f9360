#include "examples/corpus_stats/corpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <numeric>
#include <set>
#include <stdexcept>

namespace corpus {
namespace {

namespace fs = std::filesystem;

/// Collects files from the folders below one.
class Finder {
 public:
  Listing listing;

  void look_into(const fs::path& folder) {
    std::error_code failed;
    fs::directory_iterator entries(folder, failed);
    if (failed) return skip(folder, failed.message());
    for (const fs::directory_entry& entry : entries) take(entry);
  }

 private:
  void take(const fs::directory_entry& entry) {
    std::error_code failed;
    const fs::path path = fs::canonical(entry.path(), failed);  // where links lead
    const fs::file_status status = failed ? fs::file_status() : fs::status(path, failed);
    if (failed) return skip(entry.path(), failed.message());
    if (fs::is_directory(status)) {
      // Through links a tree could be without end, or the whole machine.
      return entry.is_symlink() ? skip(entry.path(), "a link to a folder") : look_into(path);
    }
    if (!fs::is_regular_file(status)) return skip(entry.path(), "not a regular file");
    if (!seen_.insert(path).second) return;
    const std::uintmax_t size = fs::file_size(path, failed);
    if (failed) return skip(entry.path(), failed.message());
    listing.files.push_back({path.string(), size});
  }
  void skip(const fs::path& path, const std::string& reason) {
    listing.skipped.push_back(fmt::format("{}: {}", path.string(), reason));
  }

  std::set<fs::path> seen_;
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char lower(char c) { return static_cast<char>(c | 0x20); }

}  // namespace

Listing find_files(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw std::runtime_error(folder.string() + " is not a folder");
  Finder finder;
  finder.look_into(folder);
  if (finder.listing.files.empty()) {
    throw std::runtime_error("there is no file to read in " + folder.string());
  }
  std::ranges::sort(finder.listing.files, {}, &File::path);
  return finder.listing;
}

Shares deal(const std::vector<File>& files, int ranks) {
  std::vector<std::size_t> by_size(files.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::sort(by_size, std::greater(),
                    [&](std::size_t i) { return std::pair(files[i].size, files.size() - i); });
  Shares shares(ranks);
  std::vector<Count> load(ranks);
  for (const std::size_t file : by_size) {
    const auto rank = std::ranges::min_element(load) - load.begin();
    shares[rank].push_back(file);
    load[rank] += files[file].size + 1;  // an empty file is work too
  }
  return shares;
}

Statistics& Statistics::operator+=(const Statistics& other) {
  std::ranges::transform(bytes, other.bytes, bytes.begin(), std::plus());
  std::ranges::transform(word_lengths, other.word_lengths, word_lengths.begin(), std::plus());
  for (const auto& [word, count] : other.words) words[word] += count;
  return *this;
}

FileRow count_file(const File& file, Statistics& statistics) {
  FileRow row;
  std::string word;
  auto end_word = [&] {
    if (word.empty()) return;
    ++row.words;
    ++statistics.word_lengths[word.size()];
    ++statistics.words[word];
    word.clear();
  };
  std::ifstream in(file.path, std::ios::binary);
  std::vector<char> block(std::size_t{1} << 16);
  while (in.read(block.data(), std::ssize(block)), in.gcount() > 0) {
    for (const char c : std::span(block).first(in.gcount())) {
      ++statistics.bytes[static_cast<unsigned char>(c)];
      ++row.bytes;
      if (c == '\n') ++row.lines;
      if (is_letter(c)) word += lower(c);
      if (!is_letter(c) || word.size() == longest_word) end_word();
    }
  }
  end_word();
  row.readable = in.is_open() && !in.bad() ? 1 : 0;
  return row;
}

Count total(std::span<const Count> counts) {
  return std::accumulate(counts.begin(), counts.end(), Count{0});
}

std::vector<WordCount> top_words(const Words& words, std::size_t how_many) {
  std::vector<WordCount> top;
  for (const auto& [word, count] : words) top.push_back({word, count});
  std::ranges::sort(top, [](const WordCount& a, const WordCount& b) {
    return a.count != b.count ? a.count > b.count : a.word < b.word;
  });
  if (top.size() > how_many) top.resize(how_many);
  return top;
}

}  // namespace corpus
