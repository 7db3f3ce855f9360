// A child made by fork() may end in any way: its parent's world goes on, and ends, as if it had
// never been.
//   forks_test exit|_exit|quick_exit|exec|signal|destroy|handles|use|after|note
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/mpi/check.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

constexpr int child_status = 7;

// Ended by the end of the process, the child's, too.
std::unique_ptr<World> world;
std::vector<ProcessGroup> groups;
std::optional<TcpStore> store;
Work in_flight;
std::vector<float> data(1'000'000, 1);

void expect_all_works() {
  for (ProcessGroup& group : groups) {
    std::int32_t one = 1;
    group.all_reduce(view_of(one));
    CHECK(one == group.size());
  }
}

// Every call says that it is no rank's, and none waits.
void use_in_child() {
  float value = 1;
  ProcessGroup& group = groups[1];
  const auto refuses = [](const std::function<void()>& call) {
    CHECK_THROWS(UsageError, call(), "child made by fork()", "remedy");
  };
  refuses([&] { group.all_reduce(view_of(value)); });
  refuses([&] { (void)group.all_reduce_async(view_of(value)); });
  refuses([&] { (void)group.isend(view_of(value), 1); });
  refuses([&] { group.shrink(); });
  refuses([&] { group.abort("in vain"); });
  refuses([&] { group.set_timeout(1s); });
  refuses([&] { group.wait_for_pending_works(); });
  refuses([&] { in_flight.wait(); });
  refuses([&] { in_flight.test(); });
  refuses([&] { in_flight.wait(1s); });
  refuses([&] { world->new_group({0, 1}); });
  refuses([&] { (void)world->new_group_async({0, 1}); });
  refuses([&] { world->dump(); });
  refuses([] { World(); });
  refuses([] { store->set("key", "value"); });
  CHECK(value == 1 && group.size() == 2 && !world->flight_record().empty());
  // What ends something ends nothing.
  group.destroy();
  world->destroy();
}

[[noreturn]] void end_child(std::string_view how) {
  if (how == "_exit") _exit(child_status);
  if (how == "quick_exit") std::quick_exit(child_status);
  if (how == "exec") execlp("sh", "sh", "-c", "exit 7", static_cast<char*>(nullptr));
  if (how == "signal") std::raise(SIGKILL);
  if (how == "destroy") world->destroy();
  if (how == "use") use_in_child();
  if (how == "handles" || how == "use") {
    in_flight = Work();
    groups.clear();
    store.reset();
    world.reset();
  }
  std::exit(child_status);
}

/// Its status, as waitpid() gives it; -1 where it does not end soon, and is ended.
int wait_for(pid_t child) {
  int status = 0;
  for (int tries = 0; tries < 2000; ++tries) {
    if (waitpid(child, &status, WNOHANG) == child) return status;
    std::this_thread::sleep_for(5ms);
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return -1;
}

void fork_once(std::string_view how) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) end_child(how);
  const int status = wait_for(child);
  if (how == "signal")
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  else
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == child_status);
}

void set_up() {
  world = std::make_unique<World>(WorldOptions{.timeout = 20s});
  groups = {world->group(), world->new_group({0, 1})};
  store.emplace(TcpStoreOptions{.host = "127.0.0.1", .port = 0, .is_server = true});
  expect_all_works();
}

void run(std::string_view how) {
  set_up();
  if (how == "after") {
    groups.clear();
    world.reset();
    fork_once(how);  // MPI is there until the process ends
    return;
  }
  // It needs the steps of both, which rank 0 does not take until its child has ended.
  in_flight = groups[1].all_reduce_async(data);
  for (int i = 0; world->rank() == 0 && i < 3; ++i) fork_once(how);
  in_flight.wait();
  CHECK(data.front() == 2 && data.back() == 2);
  for (int i = 0; i < 200; ++i) expect_all_works();
  store->set("key", "value");
  if (how == "note" && world->rank() == 0) std::raise(SIGKILL);
  // A PeerError, or an AbortedError where that was heard of before. The signal may not be told.
  if (how == "note") CHECK_THROWS(Error, groups[0].barrier(), " is dead: its process was killed");
  if (how == "note") std::printf("rank 1 knows\n");
  CHECK(!world->is_destroyed());
  world->destroy();
}

}  // namespace
}  // namespace hymn::test

// A child has one thread, and the memory of its parent's others, which a search for leaks takes for
// lost.
static const pid_t started_as = getpid();
extern "C" int __lsan_is_turned_off() { return getpid() != started_as; }

int main(int argc, char** argv) { return hymn::test::run_told(argc, argv, hymn::test::run); }
