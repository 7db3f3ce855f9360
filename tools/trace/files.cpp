#include "tools/trace/files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "base/helper_thread.hpp"
#include "hymn/error.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/trace/dump_reader.hpp"
#include "tools/trace/words.hpp"
#include "tools/words.hpp"

namespace hymn::trace {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_bytes = std::size_t{256} << 20;
constexpr std::size_t most_names = 8;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// By name, but numbers by their value: dump9 comes before dump10.
bool in_order(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

std::vector<std::string> regular_files(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    // What is no file, such as the pipe that a dump is asked for through, must not be opened.
    if (entry->is_regular_file(ignored)) names.push_back(entry->path().filename().string());
  }
  if (error)
    throw BadArguments(
        fmt::format("cannot read the folder {}: {}", folder.string(), error.message()));
  std::sort(names.begin(), names.end(), in_order);
  return names;
}

std::vector<std::string> dumps_in(const fs::path& folder) {
  std::vector<std::string> files;
  for (const std::string& name : regular_files(folder))
    if (name.front() != '.' && is_digit(name.back())) files.push_back((folder / name).string());
  if (files.empty())
    throw BadArguments(fmt::format(
        "there are no dumps in {}: their names end with the number of a rank", folder.string()));
  return files;
}

std::vector<std::string> files_beginning(const std::string& base) {
  const fs::path path(base);
  const std::string start = path.filename().string();
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<std::string> files;
  std::error_code ignored;
  if (!start.empty() && fs::is_directory(folder, ignored))
    for (const std::string& name : regular_files(folder)) {
      const bool fits = name.size() > start.size() && name.starts_with(start) &&
                        std::all_of(name.begin() + static_cast<std::ptrdiff_t>(start.size()),
                                    name.end(), is_digit);
      if (fits) files.push_back(path.has_parent_path() ? (folder / name).string() : name);
    }
  if (files.empty())
    throw BadArguments(fmt::format(
        "{}: there is no such file or folder, and no file whose name is this and a number", base));
  return files;
}

ReadDump read_file(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return {std::nullopt, "it cannot be opened"};
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  while (stream.read(block.data(), static_cast<std::streamsize>(block.size())) ||
         stream.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(stream.gcount()));
    if (text.size() > most_bytes) return {std::nullopt, "it is larger than any dump"};
  }
  return read_dump(text, file);
}

// Several files at a time: a large job's are hundreds of megabytes.
std::vector<ReadDump> read_all(const std::vector<std::string>& files) {
  std::vector<ReadDump> read(files.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      try {
        read[i] = read_file(files[i]);
      } catch (const std::bad_alloc&) {
        read[i] = {std::nullopt, "there is not enough memory to read it"};
      }
    }
  };
  const std::size_t workers =
      std::min<std::size_t>({files.size(), std::thread::hardware_concurrency(), 16});
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::string failure;
  const auto note = [&](std::string_view why) {
    const std::lock_guard lock(mutex);
    failure = why;
  };
  for (std::size_t i = 1; i < workers; ++i)
    threads.push_back(start_helper_thread("hymn-read", work, note));
  run_guarded(work, note);
  for (std::thread& thread : threads) thread.join();
  if (!failure.empty()) throw ResourceError("dumps cannot be read: " + failure);
  return read;
}

using JobKey = std::pair<std::string, int>;

std::string job_text(const JobKey& key) {
  return fmt::format("job {} of {}", key.first.empty() ? "(without id)" : key.first,
                     counted(static_cast<std::size_t>(key.second), "rank"));
}

// A dump without an id is taken to be of the only job of its size.
void adopt_nameless(std::map<JobKey, std::vector<std::size_t>>& jobs) {
  for (auto nameless = jobs.begin(); nameless != jobs.end();) {
    auto only = jobs.end();
    int fitting = 0;
    for (auto other = jobs.begin(); other != jobs.end(); ++other)
      if (nameless->first.first.empty() && !other->first.first.empty() &&
          other->first.second == nameless->first.second)
        only = other, ++fitting;
    if (fitting != 1) {
      ++nameless;
      continue;
    }
    only->second.insert(only->second.end(), nameless->second.begin(), nameless->second.end());
    nameless = jobs.erase(nameless);
  }
}

bool is_meant(const JobKey& key, const std::string& wanted) {
  const std::size_t colon = wanted.rfind(':');
  if (!key.first.starts_with(wanted.substr(0, colon))) return false;
  return colon == std::string::npos || wanted.substr(colon + 1) == std::to_string(key.second);
}

std::string jobs_text(const std::map<JobKey, std::vector<std::size_t>>& jobs,
                      const std::vector<Dump>& dumps) {
  std::string text;
  for (const auto& [key, indices] : jobs) {
    text += fmt::format("\n  {} (--job {}:{}): ", job_text(key), key.first, key.second);
    for (std::size_t i = 0; i < indices.size() && i < most_names; ++i)
      text += (i == 0 ? "" : ", ") + printable(dumps[indices[i]].file);
    if (indices.size() > most_names)
      text += fmt::format(", … {} more", indices.size() - most_names);
  }
  return text;
}

std::vector<Dump> of_one_job(std::vector<Dump> dumps, const std::string& wanted) {
  std::map<JobKey, std::vector<std::size_t>> jobs;
  for (std::size_t i = 0; i < dumps.size(); ++i)
    jobs[{dumps[i].job, dumps[i].world_size}].push_back(i);
  adopt_nameless(jobs);
  const std::string all = jobs_text(jobs, dumps);
  if (!wanted.empty()) {
    std::erase_if(jobs, [&](const auto& job) { return !is_meant(job.first, wanted); });
    if (jobs.empty()) throw BadArguments(fmt::format("no dump is of job {}:{}", wanted, all));
  }
  if (jobs.size() > 1)
    throw BadArguments(fmt::format("these are dumps of different jobs; choose one with --job:{}",
                                   jobs_text(jobs, dumps)));
  std::vector<Dump> chosen;
  for (const std::size_t i : jobs.begin()->second) chosen.push_back(std::move(dumps[i]));
  return chosen;
}

}  // namespace

std::vector<std::string> files_named(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    std::error_code ignored;
    const fs::file_status status = fs::status(name, ignored);
    std::vector<std::string> found;
    if (fs::is_directory(status))
      found = dumps_in(name);
    else if (fs::exists(status))
      found = {name};
    else
      found = files_beginning(name);
    for (std::string& file : found)
      if (std::find(files.begin(), files.end(), file) == files.end())
        files.push_back(std::move(file));
  }
  return files;
}

LoadedDumps choose_dumps(std::vector<Dump> dumps, const std::string& job) {
  LoadedDumps loaded;
  std::map<int, Dump> newest;
  for (Dump& dump : of_one_job(std::move(dumps), job)) {
    const auto [found, is_new] = newest.try_emplace(dump.rank);
    if (is_new) {
      found->second = std::move(dump);
      continue;
    }
    const bool is_newer = dump.time_ns > found->second.time_ns;
    if (is_newer) std::swap(found->second, dump);
    loaded.notes.push_back(
        {dump.file,
         fmt::format("it is of rank {}, of which {} is {}", dump.rank,
                     printable(found->second.file), is_newer ? "newer" : "at least as new"),
         true});
  }
  for (auto& [rank, dump] : newest) loaded.dumps.push_back(std::move(dump));
  return loaded;
}

LoadedDumps load_dumps(const std::vector<std::string>& files, const std::string& job) {
  std::vector<FileNote> notes;
  std::vector<Dump> dumps;
  std::vector<ReadDump> read = read_all(files);
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::optional<Dump>& dump = read[i].dump;
    if (!read[i].problem.empty()) notes.push_back({files[i], read[i].problem, !dump});
    if (dump) dumps.push_back(std::move(*dump));
  }
  if (dumps.empty()) {
    std::string problem = "none of the files is a dump that can be read:";
    for (std::size_t i = 0; i < notes.size() && i < most_names; ++i)
      problem += fmt::format("\n  {}: {}", printable(notes[i].file), notes[i].text);
    if (notes.size() > most_names)
      problem += fmt::format("\n  … {} more", notes.size() - most_names);
    throw BadArguments(problem);
  }
  LoadedDumps loaded = choose_dumps(std::move(dumps), job);
  loaded.notes.insert(loaded.notes.begin(), notes.begin(), notes.end());
  return loaded;
}

}  // namespace hymn::trace
