// What the job finds out, whichever way it is counted; and how it is printed.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "examples/corpus_stats/combine.hpp"

namespace corpus {

/// What one half of the ranks has read.
struct Half {
  Count bytes = 0;
  Count words = 0;
  Count vocabulary = 0;  ///< different words
  friend bool operator==(const Half&, const Half&) = default;
};

struct Summary {
  std::vector<FileRow> rows;  ///< one for each file
  decltype(Statistics::bytes) bytes{};
  decltype(Statistics::word_lengths) word_lengths{};
  Count vocabulary = 0;
  std::vector<WordCount> top;
  std::array<Half, 2> halves{};
  Count largest = 0;  ///< file that can be read, in bytes
  Count smallest = std::numeric_limits<Count>::max();
};

inline constexpr std::size_t top_count = 12;

/// The ranks from 0 on belong to the lower half, as many as this.
constexpr int lower_ranks(std::ptrdiff_t ranks) { return static_cast<int>((ranks + 1) / 2); }

/// The names of what differs; empty when all is equal.
std::vector<std::string> differences(const Summary& a, const Summary& b);

void print_report(const Summary& summary, const Listing& listing, const Shares& shares,
                  const std::vector<Conductor::Step>& steps);

}  // namespace corpus
