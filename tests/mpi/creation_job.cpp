// A rank that fails while a world is made, at a point that is counted; creation_test.cpp starts it.
//   creation_job FILE VICTIM POINT count|kill|exit|stop
// A point is a call of the victim's main thread to MPI, or to the system for memory or sockets,
// that moves the making on; 0 is before the first, and what comes after the last is a call on the
// world. Each of the others must hear of the victim, and of nobody else, and adds a letter to FILE.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/mpi/check.hpp"

namespace {

enum class Fate { none, kill, exit, stop } fate = Fate::none;
long points = 0;
long last_point = -1;
pthread_t counted{};
bool counts = false;

void pass() {
  if (!counts || pthread_equal(counted, pthread_self()) == 0 || points++ != last_point) return;
  switch (fate) {
    case Fate::none:
      break;
    case Fate::kill:
      std::raise(SIGKILL);
      break;
    case Fate::exit:
      ::_exit(3);
    case Fate::stop:
      std::raise(SIGSTOP);
      break;
  }
}

template <class Call>
Call real(const char* name) {
  return reinterpret_cast<Call>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// hymn's own calls pass here on their way.
#define PASS(result, name, parameters, arguments)               \
  extern "C" result name parameters {                           \
    static const auto call = real<result(*) parameters>(#name); \
    pass();                                                     \
    return call arguments;                                      \
  }

// Seen by libhymn.so also where mpi.h does not say so of what it declares.
#define PASS_MPI(name, parameters, arguments)                            \
  extern "C" __attribute__((visibility("default"))) int name parameters; \
  PASS(int, name, parameters, arguments)

PASS_MPI(PMPI_Comm_idup, (MPI_Comm of, MPI_Comm* made, MPI_Request* request), (of, made, request))
PASS_MPI(PMPI_Comm_set_errhandler, (MPI_Comm of, MPI_Errhandler handler), (of, handler))
PASS_MPI(PMPI_Comm_create_group, (MPI_Comm of, MPI_Group group, int tag, MPI_Comm* made),
         (of, group, tag, made))
PASS_MPI(PMPI_Isend,
         (const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm over,
          MPI_Request* request),
         (data, count, type, to, tag, over, request))
PASS_MPI(PMPI_Imrecv,
         (void* data, int count, MPI_Datatype type, MPI_Message* message, MPI_Request* request),
         (data, count, type, message, request))
PASS(int, memfd_create, (const char* name, unsigned flags), (name, flags))
PASS(int, socket, (int domain, int type, int protocol), (domain, type, protocol))

namespace hymn::test {
namespace {

/// Makes the world, and calls on it until somebody is missed. The ranks give up one after the
/// other, so that most hear of those that have, too: they are to blame for nothing.
void expect_named(int rank, int victim) {
  const auto limit = std::chrono::milliseconds(4000 + 200 * rank);
  const auto began = std::chrono::steady_clock::now();
  try {
    World world({.timeout = limit, .init_timeout = limit});
    while (true) world.group().barrier();
  } catch (const Error& error) {
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
    std::printf("heard after %.3f s: %s; missing:", waited.count(), error.what());
    for (const int missing : error.context().missing) std::printf(" %d", missing);
    std::printf("\n");
    std::fflush(stdout);
    CHECK(error.context().missing == std::vector<int>{victim});
    CHECK(std::strstr(error.what(), ("rank " + std::to_string(victim) + " (").c_str()) != nullptr);
    const ErrorKind kind = error.kind();
    CHECK(kind == ErrorKind::peer || kind == ErrorKind::aborted ||
          (fate == Fate::stop && kind == ErrorKind::timeout));
  }
}

/// All survivors tell before any of them ends; then who is stopped is ended.
void end_together(const std::string& file, int rank, int victim, const std::vector<int>& pids) {
  const int out = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600);
  CHECK(::write(out, "x", 1) == 1);
  for (int tries = 0; tries < 6000; ++tries) {
    if (std::filesystem::file_size(file) + 1 >= pids.size()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (fate == Fate::stop && rank == (victim == 0 ? 1 : 0))
    ::kill(pids[static_cast<std::size_t>(victim)], SIGKILL);
}

void run(const std::string& file, int victim, long point, std::string_view what) {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> pids(static_cast<std::size_t>(size));
  const int own = ::getpid();
  MPI_Allgather(&own, 1, MPI_INT, pids.data(), 1, MPI_INT, MPI_COMM_WORLD);
  counted = pthread_self();
  counts = rank == victim;
  fate = what == "kill" ? Fate::kill : what == "exit" ? Fate::exit : Fate::stop;
  if (what == "count") {
    World world;
    counts = false;
    if (rank == victim) std::printf("points: %ld\n", points);
    return;
  }
  last_point = point == 0 ? 0 : point - 1;
  if (rank != victim) {
    expect_named(rank, victim);
    end_together(file, rank, victim, pids);
    std::fflush(nullptr);
    ::_exit(0);
  }
  if (point == 0) pass();
  try {
    World world;
    counts = false;
    std::raise(fate == Fate::stop ? SIGSTOP : SIGKILL);
  } catch (const Error& error) {
    std::printf("the victim was late: %s\n", error.what());
  }
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  hymn::test::run(argv[1], std::atoi(argv[2]), std::atol(argv[3]), argv[4]);
  if (std::string_view(argv[4]) == "count") MPI_Finalize();
  return 0;
}
