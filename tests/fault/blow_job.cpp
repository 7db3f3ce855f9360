// A job some of whose ranks fail; campaign_test.cpp starts it, and looks at how it ends.
//   blow_job FOLDER SEED any|tcp
// What the seed says (blow.hpp) happens. Each of the others notes in FOLDER what it heard of that,
// and whether it could go on with those who are left.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>

#include "tests/fault/blow.hpp"
#include "tests/fault/cutter.hpp"
#include "tests/fault/notes.hpp"
#include "tests/mpi/check.hpp"
#include "tests/random/player.hpp"

namespace hymn::test {
namespace {

using std::chrono::seconds;

/// The rank's part in what is to happen to it.
class Fate {
 public:
  Fate(const Blow& blow, int rank, Notes notes)
      : victim_(blow.victim(rank)), notes_(std::move(notes)) {}

  bool is_victim() const { return victim_ != nullptr; }

  /// The phase begins: the victim fails so long after it.
  void begin() {
    if (!is_victim()) return;
    std::thread([this] {
      std::this_thread::sleep_for(std::chrono::microseconds(victim_->delay_us));
      if (victim_->death == Death::exit || victim_->death == Death::never) {
        is_due_ = true;
        return;
      }
      note();
      fail();
    }).detach();
  }
  /// Between two calls.
  void pass() {
    if (!is_due_) return;
    note();
    fail();
  }
  /// The others may have given up on a rank that is only late: it waits for its end.
  [[noreturn]] void await() {
    while (true) {
      pass();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  void note() const {
    notes_.write(death_note(static_cast<std::size_t>(victim_->rank)), clock_ms());
  }
  void fail() const {
    switch (victim_->death) {
      case Death::kill:
        std::raise(SIGKILL);
        break;
      case Death::segv:
        std::signal(SIGSEGV, SIG_DFL);
        std::raise(SIGSEGV);
        break;
      case Death::abort:
        std::abort();
      case Death::exit:
        std::exit(1);
      case Death::leave:
        ::_exit(0);
      case Death::stop:
        std::raise(SIGSTOP);
        break;
      case Death::never:
        std::this_thread::sleep_for(seconds(90));
        ::_exit(0);
    }
  }

  const Victim* victim_;
  Notes notes_;
  std::atomic<bool> is_due_{false};
};

void expect_sum(ProcessGroup& group, int rank) {
  std::vector<std::int64_t> sums(100, rank + 1);
  group.all_reduce(sums);
  std::int64_t right = 0;
  for (const int member : group.membership().ranks) right += member + 1;
  for (const std::int64_t sum : sums) EXPECT_EQ(sum, right);
}

// Of all ranks: none of them waits for one that has heard of the failure elsewhere, and goes on.
void make_groups(World& world, Fate& fate) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  for (int turn = 0;; ++turn) {
    fate.pass();
    ProcessGroup group =
        turn % 3 == 0 ? world.new_group_async(ranks).get() : world.new_group(ranks);
    expect_sum(group, world.rank());
    group.destroy();
  }
}

/// Has all groups of the phase `calls`.
Player* playing = nullptr;

void mix_calls(World& world, const Blow& blow, Fate& fate, const std::function<void()>& ready) {
  constexpr int first_groups = 4;
  // They stay: operations are in flight for longer than this function runs.
  auto* const script = new Script(Script::draw(
      blow.seed, {.ranks = world.size(), .steps = 100'000, .first_makes = first_groups}));
  auto* const worlds = new std::vector<World*>{&world};
  Player* const player = playing = new Player(*worlds, *script);
  player->play(first_groups);
  ready();
  while (true) {
    fate.pass();
    player->play(20);
    world.group().barrier();  // else not every rank would need every other
  }
}

void pass_messages(World& world, const Blow& blow, Fate& fate) {
  const std::size_t most = blow.streams == 1 ? 100'000 : 400'000;
  ProcessGroup& group = world.group();
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  for (int turn = 0;; ++turn) {
    fate.pass();
    const std::size_t count = turn % 50 == 0 ? most : static_cast<std::size_t>(turn % 97);
    // MPI may still use them after a failure.
    auto* const out = new std::vector<std::int64_t>(count, world.rank() + turn);
    auto* const in = new std::vector<std::int64_t>(count);
    Work sent = group.isend(*out, next, turn % 100);
    group.recv(*in, previous, turn % 100);
    sent.wait();
    for (const std::int64_t value : *in) EXPECT_EQ(value, previous + turn);
    delete in;
    delete out;
  }
}

void shrink_for_ever(World& world, Fate& fate) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  ProcessGroup group = world.new_group(ranks);
  while (true) {
    fate.pass();
    world.group().barrier();  // nobody is in the group any more
    group = group.shrink();
    expect_sum(group, world.rank());
  }
}

class Summer : public Joinable {
 public:
  Summer(ProcessGroup group, Fate& fate) : group_(std::move(group)), fate_(fate) {}
  void step(std::int32_t value) {
    fate_.pass();
    Join::notify(*this);
    group_.all_reduce(view_of(value));
  }
  std::unique_ptr<JoinHook> join_hook(const JoinArguments&) override {
    struct Hook : JoinHook {
      explicit Hook(Summer& summer) : owner(summer) {}
      void main_hook() override { owner.step(0); }
      Summer& owner;
    };
    return std::make_unique<Hook>(*this);
  }
  ProcessGroup join_group() const override { return group_; }

 private:
  ProcessGroup group_;
  Fate& fate_;
};

/// Ends only for rank 0, which has no input.
void join_for_ever(World& world, bool has_hooks, Fate& fate) {
  Summer summer(world.group(), fate);
  const auto body = [&] {
    while (world.rank() != 0) summer.step(1);
  };
  if (has_hooks)
    Join({&summer}).run(body);
  else
    Join::shadow_all({world.group()}, body);
}

class Job {
 public:
  Job(const Blow& blow, int rank, const Notes& notes)
      : blow_(blow), rank_(rank), notes_(notes), fate_(blow, rank, notes) {
    notes_.write(pid_note(rank), getpid());
  }

  void play();

 private:
  void live(World& world);
  void begin_to_cut() {
    cutter_.start(blow_.cut_every_ms, blow_.seed + static_cast<std::uint64_t>(rank_));
  }
  void note(const Error& error);
  void note_end();
  void finalize();
  void recover(World& world);

  Blow blow_;
  int rank_;
  Notes notes_;
  Fate fate_;
  nlohmann::json report_{{"kind", "none"}};
  std::once_flag noted_;
  Cutter cutter_;
};

// MPI_Finalize deletes attributes before all else, the newest first: when it comes to one that is
// older than hymn's, hymn has done its part.
std::atomic<bool> hymn_is_done{false};

void watch_for_hymn() {
  int key = MPI_KEYVAL_INVALID;
  const auto note = [](MPI_Comm, int, void*, void*) -> int {
    hymn_is_done = true;
    return MPI_SUCCESS;
  };
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, note, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
}

/// MPI itself may wait for ever for those who die in MPI_Finalize, which is not hymn's affair.
void Job::finalize() {
  fate_.begin();
  std::thread([this] {
    while (!hymn_is_done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(seconds(5));
    if (fate_.is_victim()) fate_.await();
    note_end();
    ::_exit(0);
  }).detach();
  MPI_Finalize();
}

void Job::live(World& world) {
  const auto ready = [&] {
    world.group().barrier();
    fate_.begin();
    begin_to_cut();
  };
  if (blow_.phase == Phase::finalize) {
    begin_to_cut();
    return world.group().barrier();
  }
  if (blow_.phase != Phase::calls && blow_.phase != Phase::world) ready();
  switch (blow_.phase) {
    case Phase::calls:
      return mix_calls(world, blow_, fate_, ready);
    case Phase::groups:
      return make_groups(world, fate_);
    case Phase::messages:
      return pass_messages(world, blow_, fate_);
    case Phase::shrink:
      return shrink_for_ever(world, fate_);
    case Phase::join:
    case Phase::shadow:
      return join_for_ever(world, blow_.phase == Phase::join, fate_);
    case Phase::world:
      while (true) expect_sum(world.group(), rank_);
    case Phase::end:
      for (int turn = 0; turn < static_cast<int>(blow_.seed % 20); ++turn)
        expect_sum(world.group(), rank_);
      return;
    case Phase::finalize:
      return;
  }
}

/// A group of those who are left. Who knows of no failure, and waits for this rank in a group
/// without a victim, is told first.
void Job::recover(World& world) {
  const std::string reason = "it goes on without the others: " + report_["text"].get<std::string>();
  if (playing != nullptr) playing->give_up(reason);
  if (!world.group().is_aborted()) world.group().abort(reason);
  for (const Victim& victim : blow_.victims)
    notes_.await(death_note(static_cast<std::size_t>(victim.rank)), seconds(10));
  report_["left"] = std::vector<int>();
  for (int turn = 0; turn < 3; ++turn) try {
      ProcessGroup group = world.group().shrink();
      expect_sum(group, rank_);
      group.barrier();
      report_["left"] = group.membership().ranks;
      return;
    } catch (const Error& error) {
      report_["recovery"].push_back(error.what());
    }
}

void Job::note(const Error& error) {
  report_ = {{"kind", to_string(error.kind())},
             {"text", error.what()},
             {"missing", error.context().missing},
             {"at_ms", clock_ms()}};
}

/// The first of the survivors ends those who stay, when all others have told.
void Job::note_end() {
  std::call_once(noted_, [this] {
    report_["failures"] = ::testing::Test::HasFailure();
    report_["cuts"] = cutter_.count();
    notes_.write(report_note(0, rank_), report_);
  });
  const std::vector<int> survivors = blow_.survivors();
  if (!blow_.anyone_stays() || rank_ != survivors.front()) return;
  for (const int survivor : survivors) notes_.await(report_note(0, survivor), seconds(45));
  for (const Victim& victim : blow_.victims)
    if (const auto pid = notes_.read(pid_note(victim.rank)); victim.stays() && pid)
      ::kill(pid->get<int>(), SIGKILL);
}

void Job::play() {
  if (blow_.phase == Phase::world) {
    fate_.begin();
    begin_to_cut();
  }
  // News of a death end what is in flight long before a limit. Before there is a world there are no
  // news, and of those who do not die nobody hears. No limit may pass for who is only late.
  const bool stays = blow_.anyone_stays();
  const seconds limit(stays ? 4 : 30);
  const seconds init_limit(stays ? 4 : blow_.phase == Phase::world ? 6 : 15);
  try {
    World world({.timeout = limit, .init_timeout = init_limit, .path = blow_.path});
    try {
      live(world);
    } catch (const Error& error) {
      note(error);
      cutter_.stop();
      if (fate_.is_victim()) fate_.await();
      if (blow_.is_recovered()) recover(world);
    }
    world.destroy();
  } catch (const Error& error) {
    if (fate_.is_victim()) fate_.await();
    if (report_["kind"] == "none") note(error);
  }
  if (fate_.is_victim() && blow_.phase != Phase::end && blow_.phase != Phase::finalize)
    fate_.await();
  if (blow_.phase == Phase::finalize) finalize();
  note_end();
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) {
  using namespace hymn::test;
  ::testing::InitGoogleTest(&argc, argv);
  if (argc != 4) return 2;
  int level = 0;
  int rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  watch_for_hymn();
  const std::uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  const Blow blow =
      std::string_view(argv[3]) == "tcp" ? Blow::draw_over_tcp(seed) : Blow::draw(seed);
  if (blow.streams != 1) ::setenv("HYMN_TCP_STREAMS", std::to_string(blow.streams).c_str(), 1);
  Job(blow, rank, Notes(argv[1])).play();
  return 0;
}
