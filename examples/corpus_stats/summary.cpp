#include "examples/corpus_stats/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>

namespace corpus {
namespace {

/// A line of a bar chart; the longest bar stands for `most`.
void print_bar(const std::string& label, Count count, Count most) {
  const std::size_t length = most == 0 ? 0 : 40 * count / most;
  fmt::print("  {:<14}{:>12}  {}\n", label, count, std::string(length, '#'));
}

std::string kind_of(int byte) {
  if (byte >= 128) return "beyond ASCII";
  if (std::isalpha(byte)) return "letters";
  if (std::isdigit(byte)) return "digits";
  if (byte == '\n') return "line ends";
  if (std::isspace(byte)) return "spaces";
  return std::ispunct(byte) ? "punctuation" : "control";
}

void print_bytes(const Summary& summary) {
  std::vector<std::pair<std::string, Count>> kinds;
  for (int byte = 0; byte < 256; ++byte) {
    auto kind = std::ranges::find(kinds, kind_of(byte), &std::pair<std::string, Count>::first);
    if (kind == kinds.end()) kind = kinds.insert(kind, {kind_of(byte), 0});
    kind->second += summary.bytes[byte];
  }
  std::ranges::sort(kinds, std::greater(), &std::pair<std::string, Count>::second);
  fmt::print("\nBytes\n");
  for (const auto& [kind, count] : kinds) print_bar(kind, count, kinds.front().second);
}

void print_words(const Summary& summary) {
  const auto& lengths = summary.word_lengths;
  fmt::print("\nLetters in a word\n");
  for (std::size_t length = 1; length < lengths.size(); ++length) {
    if (lengths[length] == 0) continue;
    const std::string label =
        length < longest_word ? fmt::format("{}", length) : fmt::format("{} or more", length);
    print_bar(label, lengths[length], std::ranges::max(lengths));
  }
  fmt::print("\nMost frequent of {} different words\n", summary.vocabulary);
  for (const auto& [word, count] : summary.top) print_bar(word, count, summary.top[0].count);
}

void print_ranks(const Summary& summary, const Shares& shares) {
  fmt::print("\n  {:>6}{:>8}{:>12}{:>12}{:>12}\n", "rank", "files", "bytes", "lines", "words");
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    FileRow sum;
    for (const std::size_t file : shares[rank]) {
      sum.bytes += summary.rows[file].bytes;
      sum.lines += summary.rows[file].lines;
      sum.words += summary.rows[file].words;
    }
    fmt::print("  {:>6}{:>8}{:>12}{:>12}{:>12}\n", rank, shares[rank].size(), sum.bytes, sum.lines,
               sum.words);
  }
}

void print_halves(const Summary& summary, std::ptrdiff_t ranks) {
  if (ranks < 2) return;
  fmt::print("\n  {:<12}{:>12}{:>12}{:>18}\n", "half", "bytes", "words", "different words");
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& [bytes, words, vocabulary] = summary.halves[i];
    const auto first = i == 0 ? 0 : lower_ranks(ranks);
    const auto last = (i == 0 ? lower_ranks(ranks) : ranks) - 1;
    fmt::print("  {:<12}{:>12}{:>12}{:>18}\n", fmt::format("ranks {}-{}", first, last), bytes,
               words, vocabulary);
  }
}

/// The first file of this size.
std::string file_of(Count size, const Summary& summary, const Listing& listing) {
  const auto row = std::ranges::find_if(summary.rows, [&](const FileRow& candidate) {
    return candidate.readable && candidate.bytes == size;
  });
  return listing.files[row - summary.rows.begin()].path;
}

void print_skipped(const Summary& summary, const Listing& listing) {
  std::vector<std::string> skipped = listing.skipped;
  for (std::size_t i = 0; i < summary.rows.size(); ++i) {
    if (!summary.rows[i].readable) skipped.push_back(listing.files[i].path + ": cannot be read");
  }
  if (skipped.empty()) return;
  constexpr std::size_t shown = 8;
  fmt::print("\nLeft out: {}\n", skipped.size());
  for (std::size_t i = 0; i < std::min(shown, skipped.size()); ++i) {
    fmt::print("  {}\n", skipped[i]);
  }
  if (skipped.size() > shown) fmt::print("  and {} more\n", skipped.size() - shown);
}

void print_steps(const std::vector<Conductor::Step>& steps) {
  fmt::print("\n  {:<26}{:<12}{:<12}{:>9}  {:<12}{}\n", "what rank 0 took part in", "collective",
             "group", "bytes", "path", "algorithm");
  for (const auto& [purpose, collective, group, bytes, path, algorithm] : steps) {
    fmt::print("  {:<26}{:<12}{:<12}{:>9}  {:<12}{}\n", purpose, collective, group, bytes, path,
               algorithm);
  }
}

}  // namespace

std::vector<std::string> differences(const Summary& a, const Summary& b) {
  std::vector<std::string> names;
  auto compare = [&](const char* name, const auto& one, const auto& other) {
    if (one != other) names.emplace_back(name);
  };
  compare("file table", a.rows, b.rows);
  compare("byte counts", a.bytes, b.bytes);
  compare("word lengths", a.word_lengths, b.word_lengths);
  compare("number of different words", a.vocabulary, b.vocabulary);
  compare("top words", a.top, b.top);
  compare("halves", a.halves, b.halves);
  compare("largest file", a.largest, b.largest);
  compare("smallest file", a.smallest, b.smallest);
  return names;
}

void print_report(const Summary& summary, const Listing& listing, const Shares& shares,
                  const std::vector<Conductor::Step>& steps) {
  const auto read = std::ranges::count(summary.rows, Count{1}, &FileRow::readable);
  fmt::print("{} files, {} bytes, {} lines, {} words\n", read, total(summary.bytes),
             summary.bytes['\n'], total(summary.word_lengths));
  fmt::print("largest:  {} bytes, {}\nsmallest: {} bytes, {}\n", summary.largest,
             file_of(summary.largest, summary, listing), summary.smallest,
             file_of(summary.smallest, summary, listing));
  print_ranks(summary, shares);
  print_halves(summary, std::ssize(shares));
  print_bytes(summary);
  print_words(summary);
  print_skipped(summary, listing);
  print_steps(steps);
}

}  // namespace corpus
