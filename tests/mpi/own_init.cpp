// Programs that leave MPI to hymn: own_init_test starts them and looks at how they end.
//   own_init LIFE
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>

#include "tests/mpi/check.hpp"

namespace hymn::test {
namespace {

void use(World& world) {
  std::int32_t one = 1;
  world.group().all_reduce(view_of(one));
  CHECK(one == world.size());
}

bool is_last(const World& world) { return world.rank() == world.size() - 1; }

/// Waits for ranks that never come.
void wait_for_ever(World& world) {
  world.group().barrier({.timeout = Timeout::none()});
  std::fprintf(stderr, "the barrier is over\n");
}

int three_worlds() {
  for (int i = 0; i < 3; ++i) {
    World world;
    use(world);
    ProcessGroup group = world.new_group({0});
    Work work = world.group().barrier_async();
    if (i == 1) world.destroy();
  }
  int finalized = -1;
  MPI_Finalized(&finalized);
  CHECK(finalized == 0);  // it may be needed again, up to the end of the process
  std::printf("three\n");
  return 0;
}

int two_at_once() {
  World first;
  World second;
  use(second);
  use(first);
  first.destroy();
  use(second);
  return 0;
}

int at_exit_static() {
  static World world;
  use(world);
  std::exit(0);
}

int at_exit_leaked() {
  auto* world = new World();
  use(*world);
  std::exit(0);
}

int never_used() {
  const World world;
  return 0;
}

int after_a_refused_world() {
  CHECK_THROWS(ConfigError, World({.path = "carrier_pigeon"}), "carrier_pigeon");
  CHECK_THROWS(ConfigError, World({.algo = "all_reduce_mpi,"}), "a name is missing");
  CHECK_THROWS(ConfigError, World({.algo = "all_reduce_abacus"}), "all_reduce_abacus");
  int level = MPI_THREAD_MULTIPLE;
  MPI_Query_thread(&level);
  if (level != MPI_THREAD_MULTIPLE)
    CHECK_THROWS(UsageError, World({.progress_thread = true}), "a progress thread is asked for");
  World world;
  use(world);
  return 0;
}

int uncaught() {
  World world;
  use(world);
  if (is_last(world)) throw std::runtime_error("the last rank has had enough");
  wait_for_ever(world);
  return 0;
}

int caught() {
  try {
    uncaught();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
  return 0;
}

/// Its first rank comes to the end of the world when the others have given it up.
int late_end() {
  World world;
  std::int32_t one = 1;
  // The usual limit is a short one here.
  world.group().all_reduce(view_of(one), {}, {.timeout = std::chrono::seconds(30)});
  if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(3));
  return 0;
}

int all_caught() {
  try {
    World world;
    use(world);
    throw std::runtime_error("every rank has had enough");
  } catch (const std::exception&) {
    return 3;
  }
}

int early_exit() {
  World world;
  use(world);
  if (is_last(world)) std::exit(4);
  wait_for_ever(world);
  return 0;
}

int timed_out() {
  using namespace std::chrono_literals;
  World world;
  use(world);
  if (!is_last(world)) {
    CHECK_THROWS(TimeoutError, world.group().barrier({.timeout = 100ms}), "barrier");
    return 5;
  }
  return 0;
}

/// A world that one rank is refused: the others wait in vain, and all go on, with what they have
/// and with another world.
int one_is_refused() {
  World first;
  for (int turn = 0; turn < 3; ++turn) {
    WorldOptions options{.init_timeout = std::chrono::seconds(1)};
    if (first.rank() == turn % first.size()) options.path = "pigeon";
    try {
      const World second(options);
      return 1;
    } catch (const ConfigError&) {
      CHECK(!options.path.empty());
    } catch (const TimeoutError&) {
      CHECK(options.path.empty());
    }
    first.group().barrier();
    std::vector<int> all(static_cast<std::size_t>(first.size()));
    std::iota(all.begin(), all.end(), 0);
    ProcessGroup group =
        first.new_group(all, {.init_timeout = std::chrono::seconds(10), .path = "mpi"});
    std::int32_t one = 1;
    group.all_reduce(view_of(one));
    CHECK(one == first.size());
    World third;
    use(third);
  }
  return 0;
}

int tell_level(const WorldOptions& options = {}) {
  const World world(options);
  int level = -1;
  MPI_Query_thread(&level);
  std::printf("level %s\n", level == MPI_THREAD_SINGLE       ? "single"
                            : level == MPI_THREAD_FUNNELED   ? "funneled"
                            : level == MPI_THREAD_SERIALIZED ? "serialized"
                                                             : "multiple");
  return 0;
}

int tell_size() {
  try {
    World world;
    use(world);
    std::printf("size %d\n", world.size());
  } catch (const ConfigError& error) {
    std::printf("ConfigError: %s\n", error.what());
    return 6;
  }
  return 0;
}

const std::map<std::string, std::function<int()>> lives = {
    {"three_worlds", three_worlds},
    {"two_at_once", two_at_once},
    {"at_exit_static", at_exit_static},
    {"at_exit_leaked", at_exit_leaked},
    {"never_used", never_used},
    {"after_a_refused_world", after_a_refused_world},
    {"uncaught", uncaught},
    {"caught", caught},
    {"all_caught", all_caught},
    {"late_end", late_end},
    {"early_exit", early_exit},
    {"timed_out", timed_out},
    {"one_is_refused", one_is_refused},
    {"tell_level", [] { return tell_level(); }},
    {"tell_level_asked", [] { return tell_level({.thread_level = ThreadLevel::serialized}); }},
    {"tell_size", tell_size},
};

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) {
  const auto life = hymn::test::lives.find(argc == 2 ? argv[1] : "");
  return life == hymn::test::lives.end() ? 2 : life->second();
}
