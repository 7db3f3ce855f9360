// mpirun -n 4 corpus_stats [FOLDER]: statistics of the texts in a folder. Each rank counts its
// share of the files; hymn's collectives bring the counts together; rank 0 prints them, and checks
// them against a count that it makes alone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <hymn/hymn.hpp>
#include <numeric>

#include "examples/corpus_stats/summary.hpp"

namespace corpus {
namespace {

using hymn::ProcessGroup;
using hymn::ReduceOp;
using hymn::Request;
using hymn::World;

/// What goes wrong in `action`; empty when nothing does.
template <class Action>
std::string problem_of(Action&& action) {
  try {
    action();
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

Half half_of(const Statistics& counted, Count vocabulary) {
  return {total(counted.bytes), total(counted.word_lengths), vocabulary};
}

/// The ranks of each half bring their counts together in a group of their own; rank 0 learns both.
std::array<Half, 2> compare_halves(Conductor& conductor, World& world, const Statistics& mine) {
  const int middle = lower_ranks(world.size());
  std::array<Half, 2> halves{};
  for (const int first : {0, middle}) {
    std::vector<int> ranks(first == 0 ? middle : world.size() - middle);
    if (ranks.empty()) continue;  // one rank has no upper half
    std::iota(ranks.begin(), ranks.end(), first);
    ProcessGroup group =
        world.new_group(ranks, {.description = first == 0 ? "lower half" : "upper half"});
    if (!group.is_member()) continue;
    Half& half = halves[first == 0 ? 0 : 1];
    half = half_of(mine, own_words(conductor, group, mine.words).size());
    conductor.run("size of this half", group,
                  Request::all_reduce(counts_in(&half), counts_in(&half)));
    group.destroy();
  }
  const hymn::BufferView upper = counts_in(&halves[1]);
  if (world.rank() == middle) world.group().send(upper, 0);
  if (world.rank() == 0 && middle < world.size()) {
    conductor.run("size of the upper half", world.group(), Request::recv(upper, middle));
  }
  return halves;
}

/// The largest and the smallest of the files that can be read.
void measure(const std::vector<FileRow>& rows, Summary& summary) {
  for (const FileRow& row : rows) {
    if (!row.readable) continue;
    summary.largest = std::max(summary.largest, row.bytes);
    summary.smallest = std::min(summary.smallest, row.bytes);
  }
}

Summary count_together(Conductor& conductor, World& world, const std::vector<File>& files,
                       const Shares& shares) {
  ProcessGroup& all = world.group();
  Statistics mine;
  std::vector<FileRow> rows;
  agree(all, problem_of([&] {
          for (const std::size_t file : shares[world.rank()]) {
            rows.push_back(count_file(files[file], mine));
          }
        }));

  Summary summary;
  auto reduce = [&](const char* purpose, hymn::ConstBufferView in, hymn::BufferView out,
                    ReduceOp op) { conductor.run(purpose, all, Request::all_reduce(in, out, op)); };
  summary.rows = gather_rows(conductor, all, shares, rows);
  reduce("bytes", mine.bytes, summary.bytes, ReduceOp::sum);
  reduce("lengths of words", mine.word_lengths, summary.word_lengths, ReduceOp::sum);
  measure(rows, summary);
  reduce("largest file", counts_in(&summary.largest), counts_in(&summary.largest), ReduceOp::max);
  reduce("smallest file", counts_in(&summary.smallest), counts_in(&summary.smallest),
         ReduceOp::min);
  const Words owned = own_words(conductor, all, mine.words);
  summary.vocabulary = owned.size();
  reduce("different words", counts_in(&summary.vocabulary), counts_in(&summary.vocabulary),
         ReduceOp::sum);
  summary.top = gather_top(conductor, all, owned, top_count);
  summary.halves = compare_halves(conductor, world, mine);
  return summary;
}

Summary count_alone(const std::vector<File>& files, const Shares& shares) {
  Summary summary;
  summary.rows.resize(files.size());
  std::array<Statistics, 2> halves;
  for (int rank = 0; rank < std::ssize(shares); ++rank) {
    Statistics& half = halves[rank < lower_ranks(std::ssize(shares)) ? 0 : 1];
    for (const std::size_t file : shares[rank]) summary.rows[file] = count_file(files[file], half);
  }
  for (int i : {0, 1}) summary.halves[i] = half_of(halves[i], halves[i].words.size());
  const Statistics& whole = halves[0] += halves[1];
  summary.bytes = whole.bytes;
  summary.word_lengths = whole.word_lengths;
  summary.vocabulary = whole.words.size();
  summary.top = top_words(whole.words, top_count);
  measure(summary.rows, summary);
  return summary;
}

void run(World& world, const std::string& folder) {
  ProcessGroup& all = world.group();
  Conductor conductor;
  Listing listing;
  std::string problem;
  if (world.rank() == 0) problem = problem_of([&] { listing = find_files(folder); });
  agree(all, problem);
  share_files(conductor, all, listing.files);
  const Shares shares = deal(listing.files, world.size());

  const Summary summary = count_together(conductor, world, listing.files, shares);
  if (world.rank() == 0) {
    problem = problem_of([&] {
      fmt::print("{}, read by {} ranks; hosts: {}\n", folder, world.size(), world.host_count());
      print_report(summary, listing, shares, conductor.steps());
      const auto differing = differences(summary, count_alone(listing.files, shares));
      for (const std::string& name : differing) fmt::print("differs: {}\n", name);
      if (!differing.empty()) throw std::runtime_error("a serial count has other results");
      fmt::print("\nchecked against a serial count: equal\n");
    });
  }
  std::fflush(stdout);  // a launcher may end this rank when another has failed
  agree(all, problem);
}

}  // namespace
}  // namespace corpus

int main(int argc, char** argv) {
  try {
    CLI::App app("Statistics of the texts in a folder, counted by the ranks of an MPI job.");
    std::string folder = "/usr/share/common-licenses";
    app.add_option("folder", folder, "Where the texts are")->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    hymn::World world;
    try {
      corpus::run(world, folder);
      return 0;
    } catch (const corpus::AgreedError& error) {
      if (world.rank() == 0) std::fprintf(stderr, "corpus_stats: %s\n", error.what());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "corpus_stats: %s\n", error.what());
  }
  return 1;
}
