#include "runtime/mechanisms/mpi_session.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/own_process.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

/// There is one MPI in a process, so there is one of these.
struct Session {
  std::mutex mutex;
  std::shared_ptr<MpiGate> gate;
  int worlds = 0;
  bool out_of_step = false;
  struct LastCall {
    std::weak_ptr<void> owner;
    std::function<void()> finish;
  };
  std::vector<LastCall> last_calls;
  OwnProcess owner;
  ForkWatch watch{[this] {
    if (gate) gate->close_in_child();
  }};
};

Session& session() {
  static auto* only = new Session();  // outlives the exit handlers that use it
  return *only;
}

int mpi_level(ThreadLevel level) {
  switch (level) {
    case ThreadLevel::single:
      return MPI_THREAD_SINGLE;
    case ThreadLevel::funneled:
      return MPI_THREAD_FUNNELED;
    case ThreadLevel::serialized:
      return MPI_THREAD_SERIALIZED;
    case ThreadLevel::multiple:
      break;
  }
  return MPI_THREAD_MULTIPLE;
}

ThreadLevel thread_level(int level) {
  if (level >= MPI_THREAD_MULTIPLE) return ThreadLevel::multiple;
  if (level >= MPI_THREAD_SERIALIZED) return ThreadLevel::serialized;
  if (level >= MPI_THREAD_FUNNELED) return ThreadLevel::funneled;
  return ThreadLevel::single;
}

bool is_finalized() {
  int finalized = 0;
  PMPI_Finalized(&finalized);
  return finalized != 0;
}

// MPI_Finalize deletes the attributes of MPI_COMM_SELF before anything else: the last moment to
// know.
int close_gate(MPI_Comm, int, void*, void*) {
  std::vector<Session::LastCall> last_calls;
  {
    const std::lock_guard lock(session().mutex);
    last_calls.swap(session().last_calls);
  }
  for (const auto& [weak, finish] : last_calls)
    if (const auto owner = weak.lock()) finish();
  if (!session().gate->close())
    Logger().warning("MPI is finalized while a thread is in an MPI call that does not return");
  return MPI_SUCCESS;
}

void watch_for_finalize() {
  int key = MPI_KEYVAL_INVALID;
  check_mpi(PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, close_gate, &key, nullptr),
            "MPI_Comm_create_keyval");
  check_mpi(PMPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr), "MPI_Comm_set_attr");
  PMPI_Comm_free_keyval(&key);  // freed when the attribute is deleted
}

void finalize_at_exit() {
  Session& only = session();
  // A child made by fork() has this exit handler, too.
  if (!only.owner.is_this()) return;
  {
    std::lock_guard lock(only.mutex);
    if (only.worlds != 0 || only.out_of_step) return;
  }
  if (!is_finalized()) PMPI_Finalize();
}

int number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return 0;
  const std::string_view view(text);
  int value = 0;
  std::from_chars(view.data(), view.data() + view.size(), value);
  return value;
}

#ifdef OPEN_MPI
constexpr const char* slurm_remedy =
    "start it with srun --mpi=pmix (see srun --mpi=list), or with mpirun inside salloc";
#else
constexpr const char* slurm_remedy =
    "start it with srun --mpi=pmi2 (see srun --mpi=list), or with mpirun inside salloc";
#endif

/// Tasks of the step of Slurm that this process is one of; 0: of none.
int slurm_tasks() {
  return std::getenv("SLURM_PROCID") == nullptr ? 0
                                                : number_from_environment("SLURM_STEP_NUM_TASKS");
}

[[noreturn]] void refuse_singleton(const char* variable, int tasks, std::string_view but,
                                   const char* remedy) {
  throw ConfigError(
      fmt::format("the launcher has started {} tasks ({}), but {}: each task is alone", tasks,
                  variable, but),
      {.remedy = remedy});
}

/// Under srun without PMIx, MPI_Init of Open MPI ends the process with a text on how to build it.
/// So this is told before. With PMI-1 or PMI-2 it depends on how Open MPI was built.
void check_slurm_plugin([[maybe_unused]] const Logger& log) {
#ifdef OPEN_MPI
  const int tasks = slurm_tasks();
  for (const char* variable : {"PMIX_NAMESPACE", "OMPI_COMM_WORLD_SIZE"})
    if (tasks < 2 || std::getenv(variable) != nullptr) return;
  if (std::getenv("PMI_FD") == nullptr)
    refuse_singleton("SLURM_STEP_NUM_TASKS", tasks, "without PMIx, which Open MPI needs",
                     slurm_remedy);
  if (number_from_environment("SLURM_PROCID") == 0)
    log.warning(
        fmt::format("the launcher has started {} tasks with PMI instead of PMIx, which most "
                    "builds of Open MPI need; if MPI_Init fails: {}",
                    tasks, slurm_remedy));
#endif
}

ThreadLevel initialise(ThreadLevel wanted, const Logger& log) {
  check_slurm_plugin(log);
  int provided = MPI_THREAD_SINGLE;
  const int code = PMPI_Init_thread(nullptr, nullptr, mpi_level(wanted), &provided);
  check_mpi(code, "MPI_Init_thread");
  std::atexit(finalize_at_exit);
  return thread_level(provided);
}

bool is_main_thread() {
  int is_main = 0;
  check_mpi(PMPI_Is_thread_main(&is_main), "MPI_Is_thread_main");
  return is_main != 0;
}

ThreadLevel adopt_mpi() {
  int provided = MPI_THREAD_SINGLE;
  check_mpi(PMPI_Query_thread(&provided), "MPI_Query_thread");
  const ThreadLevel level = thread_level(provided);
  if (level < ThreadLevel::serialized && !is_main_thread())
    throw UsageError("this thread may not call MPI at the level it was initialised with",
                     {.remedy = "make the World on the thread that initialised MPI"});
  return level;
}

}  // namespace

std::shared_ptr<MpiGate> open_mpi(ThreadLevel wanted, const Logger& log) {
  Session& only = session();
  if (only.gate && !only.owner.is_this()) only.gate->throw_closed();
  std::lock_guard lock(only.mutex);
  if (is_finalized())
    throw UsageError("MPI has been finalized, and cannot be initialised again",
                     {.remedy = "make the World before MPI_Finalize"});
  if (only.gate) return only.gate;
  int initialised = 0;
  check_mpi(PMPI_Initialized(&initialised), "MPI_Initialized");
  const ThreadLevel level = initialised != 0 ? adopt_mpi() : initialise(wanted, log);
  only.gate = std::make_shared<MpiGate>(
      level, is_main_thread() ? std::this_thread::get_id() : std::thread::id());
  watch_for_finalize();
  return only.gate;
}

void hold_finalize() {
  std::lock_guard lock(session().mutex);
  ++session().worlds;
}

void release_finalize(bool clean) {
  std::lock_guard lock(session().mutex);
  --session().worlds;
  if (!clean) session().out_of_step = true;
}

void never_finalize() {
  std::lock_guard lock(session().mutex);
  session().out_of_step = true;
}

void before_finalize(std::weak_ptr<void> owner, std::function<void()> finish) {
  std::lock_guard lock(session().mutex);
  auto& all = session().last_calls;
  std::erase_if(all, [](const auto& other) { return other.owner.expired(); });
  all.push_back({std::move(owner), std::move(finish)});
}

void check_launcher(int mpi_size) {
  if (mpi_size != 1) return;
  constexpr const char* but = "MPI sees one rank";
  // A launcher of MPI says how many ranks it has started; it may itself run inside a Slurm job of
  // more tasks, so it is asked first.
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const int tasks = number_from_environment(variable);
    if (tasks > 1)
      refuse_singleton(variable, tasks, but,
                       "use the mpirun of the MPI library that this program is linked with");
    if (tasks == 1) return;
  }
  const int tasks = slurm_tasks();
  if (tasks > 1) refuse_singleton("SLURM_STEP_NUM_TASKS", tasks, but, slurm_remedy);
}

}  // namespace hymn
