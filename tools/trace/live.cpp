#include "tools/trace/live.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "control/process_watch.hpp"
#include "hymn/error.hpp"
#include "recorder/dump_file.hpp"
#include "recorder/flight_dump.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/trace/dump_reader.hpp"
#include "tools/trace/processes.hpp"
#include "tools/words.hpp"

namespace hymn::trace {
namespace {

/// 0: the world is just being made.
std::uint64_t job_of(const FoundRecorder& recorder) {
  return recorder.view().header().job.load(std::memory_order_acquire);
}

std::string named(int pid) {
  const std::string program = program_of(pid);
  return program.empty() ? fmt::format("process {}", pid)
                         : fmt::format("process {} ({})", pid, printable(program));
}

[[noreturn]] void throw_nothing_found(int pid, const std::string& problem) {
  if (!problem.empty())
    throw BadArguments(
        fmt::format("{}: {}: use the hymn command of the version that it was built "
                    "with",
                    named(pid), problem));
  throw BadArguments(fmt::format(
      "{} has no world of hymn: it does not use hymn, has not made its world yet or has ended it, "
      "or its ranks are threads, whose records nobody else can read",
      named(pid)));
}

/// Of the process itself, or of those that it has started: a launcher.
std::vector<FoundRecorder> recorders_below(int pid) {
  switch (access_to(pid)) {
    case Access::gone:
      throw BadArguments(fmt::format("there is no process {} on this host", pid));
    case Access::forbidden:
      throw BadArguments(fmt::format(
          "{} may not be inspected by you: run this as the user that runs it, or as root",
          named(pid)));
    case Access::open:
      break;
  }
  std::string problem;
  std::vector<FoundRecorder> found = recorders_of(pid, &problem);
  if (!found.empty()) return found;
  for (const int other : all_processes()) {
    if (!descends_from(other, pid)) continue;
    for (FoundRecorder& recorder : recorders_of(other, &problem))
      found.push_back(std::move(recorder));
  }
  if (found.empty()) throw_nothing_found(pid, problem);
  return found;
}

/// Those, and all others of their jobs.
std::vector<FoundRecorder> recorders_of_jobs(std::vector<FoundRecorder> first) {
  std::set<std::uint64_t> jobs;
  std::set<int> seen;
  for (const FoundRecorder& recorder : first) {
    jobs.insert(job_of(recorder));
    seen.insert(recorder.pid);
  }
  jobs.erase(0);
  for (const int pid : all_processes()) {
    if (seen.contains(pid)) continue;
    for (FoundRecorder& recorder : recorders_of(pid))
      if (jobs.contains(job_of(recorder))) first.push_back(std::move(recorder));
  }
  return first;
}

std::string dump_text(const FoundRecorder& recorder) {
  const RecorderView view = recorder.view();
  const RecorderHeader& header = view.header();
  DumpRequest request;
  request.trigger = "live";
  request.pid = recorder.pid;
  if (is_stopped(recorder.pid))
    request.peers.push_back(
        {header.rank, "stalled", header.host.load(), header.pid, "its process is stopped"});
  else if (has_left(header))
    request.peers.push_back(
        {header.rank, "left", header.host.load(), header.pid, "it has ended its world"});
  return dump_json(view, request);
}

void write_to(const std::string& place, int rank, const std::string& text) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(place, ignored);
  try {
    write_dump({.base = is_folder ? place + "/dump" : place}, rank, text);
  } catch (const ResourceError& error) {
    throw BadArguments(error.problem());
  }
}

}  // namespace

LoadedDumps load_live(int pid, const std::string& job, const std::string& dump) {
  std::vector<Dump> dumps;
  std::vector<FileNote> notes;
  for (const FoundRecorder& recorder : recorders_of_jobs(recorders_below(pid))) {
    const std::string name = fmt::format("process {}", recorder.pid);
    const std::string text = dump_text(recorder);
    ReadDump read = read_dump(text, name);
    if (!read.dump) {
      notes.push_back({name, read.problem, true});
      continue;
    }
    if (recorder.view().capacity() == 0)
      notes.push_back({name,
                       "its recorder is off (HYMN_RECORDER_SIZE=0): only how many calls it has "
                       "made is known",
                       false});
    if (!dump.empty()) write_to(dump, read.dump->rank, text);
    dumps.push_back(std::move(*read.dump));
  }
  LoadedDumps loaded = choose_dumps(std::move(dumps), job);
  loaded.notes.insert(loaded.notes.begin(), notes.begin(), notes.end());
  return loaded;
}

}  // namespace hymn::trace
