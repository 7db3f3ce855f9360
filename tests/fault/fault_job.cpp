// A job in which ranks fail; fault_test starts it, and reads what the others have to tell.
//   fault_job FOLDER SCENE…   see scene.hpp; what is told goes to files in FOLDER
//   fault_job FOLDER loop S   collectives for ever, each S seconds at most, until there is
//   FOLDER/stop
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <functional>
#include <thread>

#include "hymn/hymn.hpp"
#include "tests/fault/notes.hpp"
#include "tests/fault/scene.hpp"

namespace hymn::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

// News of a death end an operation long before this, or not at all.
constexpr auto long_limit = seconds(30);
// Of those who do not die nobody hears. Long enough for survivors that come late, and shorter than
// what it takes until another rank runs the coordinator.
constexpr auto short_limit = seconds(4);
// So long after the scene's beginning the victim fails, and so long after it who is late calls.
constexpr auto before_death = milliseconds(200);
constexpr auto before_late_call = milliseconds(500);
constexpr std::size_t message_bytes = std::size_t{1} << 20;

/// Throws what says so when a sum is wrong.
void check_sum(std::span<const std::int64_t> sums, const ProcessGroup& group) {
  std::int64_t right = 0;
  for (const int rank : group.membership().ranks) right += rank + 1;
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (sums[i] != right * static_cast<std::int64_t>(i + 1))
      throw std::runtime_error(
          fmt::format("a wrong sum in group '{}': {} at {}", group.description(), sums[i], i));
}

std::vector<std::int64_t> summands(int rank) {
  std::vector<std::int64_t> values(100);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = (rank + 1) * static_cast<std::int64_t>(i + 1);
  return values;
}

/// MPI may still use a buffer after a failure: it stays.
template <class T>
std::vector<T>& keep(std::vector<T> values) {
  static auto* const kept = new std::deque<std::vector<T>>;
  return kept->emplace_back(std::move(values));
}

class Job {
 public:
  Job(Notes notes, std::vector<Scene> scenes);
  int play();
  int loop(seconds limit);

 private:
  void make_groups();
  ProcessGroup& alive(std::size_t scene) { return alive_[scene]; }
  int rank() const { return world_.rank(); }
  void add_up(ProcessGroup& group, const CallOptions& options = {});
  int fail(std::size_t index);
  void survive(std::size_t index);
  void bystand(std::size_t index);
  void act(const Scene& scene, ProcessGroup& group, const CallOptions& options, json& report);
  void exchange(int victim, ProcessGroup& group, const CallOptions& options, json& report);
  int end();
  void release(int signal);

  Notes notes_;
  std::vector<Scene> scenes_;
  World world_;
  std::vector<ProcessGroup> used_;   ///< by the scene, with its path
  std::vector<ProcessGroup> alive_;  ///< before the scene; the last one: after all of them
  std::vector<int> survivors_;
};

/// Notes what `call` throws, and how long it took.
void note_outcome(json& report, const std::function<void()>& call) {
  const double began = clock_ms();
  report["kind"] = "none";
  try {
    call();
  } catch (const Error& error) {
    report["kind"] = to_string(error.kind());
    report["text"] = error.what();
    report["missing"] = error.context().missing;
  } catch (const std::exception& error) {
    report["kind"] = "wrong";
    report["text"] = error.what();
  }
  report["at_ms"] = clock_ms();
  report["took_ms"] = clock_ms() - began;
}

Job::Job(Notes notes, std::vector<Scene> scenes)
    : notes_(std::move(notes)), scenes_(std::move(scenes)), world_({.timeout = long_limit}) {
  notes_.write(pid_note(rank()), getpid());
}

void Job::make_groups() {
  for (int member = 0; member < world_.size(); ++member) survivors_.push_back(member);
  alive_.push_back(world_.new_group(survivors_, {.description = "alive before scene 0"}));
  for (std::size_t i = 0; i < scenes_.size(); ++i) {
    const std::vector<int> before = survivors_;
    std::erase(survivors_, scenes_[i].victim);
    used_.push_back(world_.new_group(
        scenes_[i].member ? before : survivors_,
        {.description = "used in scene " + std::to_string(i), .path = scenes_[i].path}));
    alive_.push_back(world_.new_group(
        survivors_, {.description = "alive before scene " + std::to_string(i + 1)}));
  }
}

void Job::add_up(ProcessGroup& group, const CallOptions& options) {
  std::vector<std::int64_t> values = summands(rank());
  group.all_reduce(values, {}, options);
  check_sum(values, group);
}

int Job::play() {
  make_groups();
  for (std::size_t i = 0; i < scenes_.size(); ++i) {
    for (int turn = 0; turn < 5; ++turn)
      if (used_[i].is_member()) add_up(used_[i]);
    alive(i).barrier();
    if (rank() == scenes_[i].victim) return fail(i);
    if (scenes_[i].member)
      survive(i);
    else
      bystand(i);
  }
  return end();
}

int Job::fail(std::size_t index) {
  const std::string& death = scenes_[index].death;
  std::this_thread::sleep_for(before_death);
  notes_.write(death_note(index), clock_ms());
  if (death == "exit0") std::exit(0);
  if (death == "exit1") std::exit(1);
  if (death == "abort") std::abort();
  if (death == "kill") std::raise(SIGKILL);
  if (death == "term") std::raise(SIGTERM);
  if (death == "stop") std::raise(SIGSTOP);
  if (scenes_[index].stays()) notes_.await("released", seconds(60));
  world_.destroy();
  return 0;
}

/// What a rank does on the group of the scene; an error is the caller's.
void Job::act(const Scene& scene, ProcessGroup& group, const CallOptions& options, json& report) {
  if (scene.state == "messages") return exchange(scene.victim, group, options, report);
  if (scene.state == "idle") std::this_thread::sleep_for(before_death + before_late_call);
  std::vector<std::int64_t>& values = keep(summands(rank()));
  if (scene.state != "asynchronous") {
    report["algorithm"] = group.explain(Request::all_reduce(values, values, {})).algorithm;
    group.all_reduce(values, {}, options);
    return check_sum(values, group);
  }
  Work work = group.all_reduce_async(values, {}, options);
  report["algorithm"] = work.algorithm();
  while (rank() % 2 == 0 && !work.test())
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  work.wait();
  check_sum(values, group);
}

void Job::exchange(int victim, ProcessGroup& group, const CallOptions& options, json& report) {
  Work receiving = group.irecv(keep(std::vector<std::uint8_t>(message_bytes)), victim, 1, options);
  Work sending = group.isend(keep(std::vector<std::uint8_t>(message_bytes)), victim, 2, options);
  report["algorithm"] = receiving.algorithm();
  note_outcome(report["send"], [&] { sending.wait(); });
  receiving.wait();
}

void Job::survive(std::size_t index) {
  const Scene& scene = scenes_[index];
  json report{{"rank", rank()}};
  const CallOptions options{.timeout = scene.stays() ? short_limit : long_limit};
  note_outcome(report, [&] { act(scene, used_[index], options, report); });
  note_outcome(report["again"], [&] { add_up(used_[index], options); });
  note_outcome(report["rest"], [&] {
    for (int turn = 0; turn < 5; ++turn) add_up(alive(index + 1));
  });
  notes_.write(report_note(index, rank()), report);
}

// The group goes on as if nothing had been; the first of its members is late, so that the others
// are in their calls when the victim fails.
void Job::bystand(std::size_t index) {
  const Scene& scene = scenes_[index];
  ProcessGroup& group = used_[index];
  json report{{"rank", rank()}};
  const int first = group.membership().ranks.front();
  const bool is_late = rank() == first;
  note_outcome(report, [&] {
    if (is_late) std::this_thread::sleep_for(before_death + before_late_call);
    if (scene.state == "messages") {
      std::vector<std::int64_t> values = summands(first);
      for (const int peer : group.membership().ranks)
        if (is_late && peer != first) group.send(values, peer);
      if (!is_late) group.recv(values, first);
    } else {
      act(scene, group, {}, report);
    }
    for (int turn = 0; turn < 20; ++turn) add_up(group);
  });
  note_outcome(report["rest"], [&] { add_up(alive(index + 1)); });
  notes_.write(report_note(index, rank()), report);
}

/// Only the first of the survivors: those who stay are let go.
void Job::release(int signal) {
  if (rank() != survivors_.front()) return;
  notes_.write("released", true);
  for (const Scene& scene : scenes_)
    if (scene.death == "stop")
      if (const auto pid = notes_.read(pid_note(scene.victim))) ::kill(pid->get<int>(), signal);
}

int Job::end() {
  // Who was not missed comes back, and takes part in the end.
  const bool harmless = std::all_of(scenes_.begin(), scenes_.end(), [](const Scene& scene) {
    return scene.stays() && !scene.member;
  });
  if (harmless) release(SIGCONT);
  json report{{"rank", rank()}};
  note_outcome(report, [&] { world_.destroy(); });
  notes_.write(end_note(rank()), report);
  if (harmless || rank() != survivors_.front()) return 0;
  for (const int survivor : survivors_) notes_.await(end_note(survivor), seconds(30));
  release(SIGKILL);
  return 0;
}

int Job::loop(seconds limit) {
  json report{{"rank", rank()}};
  ProcessGroup group = world_.group();
  group.set_timeout(limit);
  std::int64_t rounds = 0;
  double longest = 0;
  note_outcome(report, [&] {
    std::int64_t stop = 0;
    for (; stop == 0; ++rounds) {
      const double began = clock_ms();
      stop = rank() == 0 && notes_.has("stop") ? 1 : 0;
      group.all_reduce(std::span(&stop, 1));
      add_up(group);
      longest = std::max(longest, clock_ms() - began);
      if (rounds == 20 && rank() == 0) notes_.write("ready", true);
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  report["rounds"] = rounds;
  report["longest_ms"] = longest;
  notes_.write(report_note(0, rank()), report);
  note_outcome(report, [&] { world_.destroy(); });
  notes_.write(end_note(rank()), report);
  return 0;
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) {
  using namespace hymn::test;
  if (argc < 3) return 2;
  try {
    const std::vector<std::string> words(argv + 2, argv + argc);
    if (words.front() == "loop")
      return Job(Notes(argv[1]), {}).loop(std::chrono::seconds(std::stoi(words.at(1))));
    std::vector<Scene> scenes;
    for (std::size_t i = words.front().starts_with("HYMN_") ? 1 : 0; i < words.size(); ++i)
      scenes.push_back(Scene::parse(words[i]));
    if (scenes.size() < words.size()) putenv(argv[2]);
    // Who is left goes on, wherever in MPI the others die.
    ::setenv("HYMN_MPI_THREAD_LEVEL", "multiple", 0);
    return Job(Notes(argv[1]), std::move(scenes)).play();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fault_job: %s\n", error.what());
    return 3;
  }
}
