#include "examples/corpus_stats/combine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <sstream>

namespace corpus {
namespace {

using hymn::InputBlocks;
using hymn::OutputBlocks;
using hymn::ProcessGroup;
using hymn::Request;

std::size_t sum(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

/// FNV-1a: the owner of a word must be the same in every process, which std::hash does not promise.
std::size_t owner(std::string_view word, std::size_t ranks) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : word) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash % ranks;
}

/// Words travel as text, one a line with its count.
std::string word_line(std::string_view word, Count count) {
  return fmt::format("{} {}\n", word, count);
}

Words read_words(const std::string& lines) {
  Words words;
  std::istringstream in(lines);
  std::string word;
  for (Count count = 0; in >> word >> count;) words[word] += count;
  return words;
}

}  // namespace

void Conductor::run(const std::string& purpose, ProcessGroup& group, const Request& request) {
  const hymn::Explanation how = group.explain(request);
  steps_.push_back({purpose, std::string(hymn::to_string(request.type)), group.description(),
                    request.inputs.total_count() * request.inputs.element_bytes(), how.path,
                    how.algorithm});
  group.run(request);
}

void agree(ProcessGroup& all, const std::string& problem) {
  int first = problem.empty() ? all.size() : all.rank();
  all.all_reduce(hymn::view_of(first), hymn::ReduceOp::min);
  if (first == all.size()) return;
  std::string text = problem;
  std::size_t length = text.size();
  all.broadcast(hymn::view_of(length), first);
  text.resize(length);
  all.broadcast(text, first);
  throw AgreedError(text);
}

void share_files(Conductor& conductor, ProcessGroup& all, std::vector<File>& files) {
  std::string list;  // "size path", each with an end that no path contains
  for (const File& file : files) list += fmt::format("{} {}", file.size, file.path) + '\0';
  std::size_t length = list.size();
  conductor.run("length of the file list", all, Request::broadcast(hymn::view_of(length), 0));
  list.resize(length);
  conductor.run("list of the files", all, Request::broadcast(list, 0));
  files.clear();
  std::istringstream in(list);
  File file;
  while (in >> file.size && in.get() && std::getline(in, file.path, '\0')) files.push_back(file);
}

std::vector<FileRow> gather_rows(Conductor& conductor, ProcessGroup& all, const Shares& shares,
                                 std::vector<FileRow>& own) {
  std::vector<std::size_t> counts;
  for (const auto& share : shares) counts.push_back(share.size() * sizeof(FileRow) / sizeof(Count));
  std::vector<FileRow> dealt(sum(counts) * sizeof(Count) / sizeof(FileRow));
  conductor.run(
      "table of the files", all,
      Request::all_gather(counts_in(own.data(), own.size()),
                          OutputBlocks::counted(counts_in(dealt.data(), dealt.size()), counts)));
  std::vector<FileRow> rows(dealt.size());  // in the order of the files again
  auto next = dealt.begin();
  for (const auto& share : shares) {
    for (const std::size_t file : share) rows[file] = *next++;
  }
  // All ranks see the same rows, so all of them come to the same end.
  if (std::ranges::count(rows, Count{1}, &FileRow::readable) == 0) {
    throw AgreedError(fmt::format("none of {} files can be read", rows.size()));
  }
  return rows;
}

Words own_words(Conductor& conductor, ProcessGroup& group, const Words& words) {
  const std::size_t ranks = group.size();
  std::vector<std::string> parts(ranks);
  for (const auto& [word, count] : words) parts[owner(word, ranks)] += word_line(word, count);
  std::string out;
  std::vector<std::size_t> out_sizes, in_sizes(ranks);
  for (const std::string& part : parts) {
    out += part;
    out_sizes.push_back(part.size());
  }
  conductor.run("sizes of the word lists", group,
                Request::all_to_all(InputBlocks::equal(out_sizes), OutputBlocks::equal(in_sizes)));
  std::string in(sum(in_sizes), '\0');
  conductor.run("words to their owners", group,
                Request::all_to_all(InputBlocks::counted(out, out_sizes),
                                    OutputBlocks::counted(in, in_sizes)));
  return read_words(in);
}

std::vector<WordCount> gather_top(Conductor& conductor, ProcessGroup& all, const Words& owned,
                                  std::size_t how_many) {
  std::string out;
  for (const auto& [word, count] : top_words(owned, how_many)) out += word_line(word, count);
  std::size_t size = out.size();
  std::vector<std::size_t> sizes(all.size());
  conductor.run("sizes of the top words", all,
                Request::all_gather(hymn::view_of(size), OutputBlocks::equal(sizes)));
  std::string in(all.rank() == 0 ? sum(sizes) : 0, '\0');
  conductor.run("top words", all, Request::gather(out, OutputBlocks::counted(in, sizes), 0));
  return top_words(read_words(in), how_many);
}

}  // namespace corpus
