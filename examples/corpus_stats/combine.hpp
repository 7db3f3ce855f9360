// The collectives of the job, in terms of what it does with them.
#pragma once

#include <hymn/hymn.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/corpus_stats/corpus.hpp"

namespace corpus {

/// Carries out requests, and remembers how each one was carried.
class Conductor {
 public:
  struct Step {
    std::string purpose, collective, group;
    std::size_t bytes = 0;  ///< that this rank gave
    std::string path, algorithm;
  };

  void run(const std::string& purpose, hymn::ProcessGroup& group, const hymn::Request& request);
  const std::vector<Step>& steps() const { return steps_; }

 private:
  std::vector<Step> steps_;
};

/// An error that every rank of the job has learnt of; only rank 0 need tell it.
struct AgreedError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Throws AgreedError on every rank when any of them has a problem. A rank that stopped alone would
/// leave the others waiting for it.
void agree(hymn::ProcessGroup& all, const std::string& problem);

/// A view of things that are made of Counts alone.
template <class T>
hymn::BufferView counts_in(T* first, std::size_t things = 1) {
  return {first, things * sizeof(T) / sizeof(Count), hymn::DataType::uint64};
}

/// Everybody gets the files of rank 0.
void share_files(Conductor& conductor, hymn::ProcessGroup& all, std::vector<File>& files);

/// Everybody gets the rows of all files; `own` are those of this rank's share. Throws AgreedError
/// when no file can be read.
std::vector<FileRow> gather_rows(Conductor& conductor, hymn::ProcessGroup& all,
                                 const Shares& shares, std::vector<FileRow>& own);

/// Each word goes to the one rank of the group that owns it, where its counts are added up. Returns
/// the words that this rank owns.
Words own_words(Conductor& conductor, hymn::ProcessGroup& group, const Words& words);

/// Rank 0 gets the most frequent words among those that the ranks own.
std::vector<WordCount> gather_top(Conductor& conductor, hymn::ProcessGroup& all, const Words& owned,
                                  std::size_t how_many);

}  // namespace corpus
