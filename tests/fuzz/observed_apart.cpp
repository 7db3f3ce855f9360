// run_apart for the fuzzer, in place of topology/apart.cpp: the work is still done in a child, as
// hwloc may crash there, but the fuzzer sees which code the child ran, and a fault in hymn's own
// code ends the run instead of passing for a damaged description.
#include <dlfcn.h>
#include <execinfo.h>
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "tests/fuzz/fuzz.hpp"
#include "topology/apart.hpp"

// The counters of clang's coverage instrumentation: the linker names the ends of their section.
extern "C" {
extern char __start___sancov_cntrs __attribute__((visibility("hidden")));
extern char __stop___sancov_cntrs __attribute__((visibility("hidden")));
}

namespace hymn {
namespace {

constexpr std::size_t most_reply = std::size_t{16} << 20;
constexpr int exit_of_work = 100;
constexpr int exit_of_fault = 101;
constexpr unsigned most_seconds = 10;

/// What the child tells the parent.
struct Shared {
  std::size_t size;
  std::array<char, most_reply> reply;
};

void* map_shared(void* at, std::size_t size) {
  void* const memory = mmap(at, size, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0);
  fuzz::require(memory != MAP_FAILED, "memory can be shared with the child");
  return memory;
}

/// Lets the parent see what the child counts: all pages that hold nothing but counters.
void share_counters() {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(&__start___sancov_cntrs);
  const auto end = reinterpret_cast<std::uintptr_t>(&__stop___sancov_cntrs);
  const std::uintptr_t first = (begin + page - 1) / page * page;
  const std::uintptr_t last = end / page * page;
  if (first < last) map_shared(reinterpret_cast<void*>(first), last - first);
}

Shared& shared() {
  static Shared* const memory = [] {
    share_counters();
    return static_cast<Shared*>(map_shared(nullptr, sizeof(Shared)));
  }();
  return *memory;
}

/// Whether the innermost code that is neither the sanitizer's nor the C library's is hymn's. What
/// hwloc does with damaged input is known; that is why it has a process of its own.
bool fault_is_ours() {
  std::array<void*, 64> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 0; i < count; ++i) {
    Dl_info info{};
    const char* const file =
        dladdr(frames[i], &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
    if (std::strstr(file, "hwloc") != nullptr || std::strstr(file, "xml2") != nullptr) return false;
    std::array<char, 512> name{};
    __sanitizer_symbolize_pc(frames[i], "%f", name.data(), name.size());
    const std::string_view function = name.data();
    // This file's own frames come from the sanitizer's calling it.
    if (function.find("fault_is_ours") == std::string_view::npos &&
        function.find("at_death") == std::string_view::npos &&
        function.find("hymn::") != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

void at_death() { _exit(fault_is_ours() ? exit_of_fault : 1); }

[[noreturn]] void be_child(const std::function<std::string()>& work, int errors) {
  signal(SIGABRT, [](int) { at_death(); });  // hwloc's assertions are no finding
  signal(SIGALRM, SIG_DFL);
  dup2(errors, STDERR_FILENO);
  __sanitizer_set_death_callback(at_death);
  alarm(most_seconds);
  try {
    const std::string reply = work();
    shared().size = std::min(reply.size(), most_reply);
    reply.copy(shared().reply.data(), shared().size);
    _exit(exit_of_work);
  } catch (const std::bad_alloc&) {
    _exit(1);  // hwloc was asked for too much
  } catch (...) {
    _exit(exit_of_fault);
  }
}

/// What the child has written on its stderr.
void show(int errors) {
  std::array<char, 4096> block{};
  lseek(errors, 0, SEEK_SET);
  for (ssize_t got = 0; (got = read(errors, block.data(), block.size())) > 0;) {
    std::fwrite(block.data(), 1, static_cast<std::size_t>(got), stderr);
  }
}

}  // namespace

std::optional<std::string> run_apart(const std::function<std::string()>& work) {
  static const int errors = memfd_create("errors of the child", MFD_CLOEXEC);
  fuzz::require(errors >= 0 && ftruncate(errors, 0) == 0, "the child has a file for its errors");
  lseek(errors, 0, SEEK_SET);
  shared().size = 0;
  const pid_t child = fork();
  if (child == 0) be_child(work, errors);
  fuzz::require(child > 0, "a child can be made");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {  // libFuzzer's clock ticks
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == exit_of_work) {
    return std::string(shared().reply.data(), shared().size);
  }
  const bool fault = WIFEXITED(status) && WEXITSTATUS(status) == exit_of_fault;
  if (fault) show(errors);
  fuzz::require(!fault, "the code that looks at what hwloc has read is sound");
  return std::nullopt;
}

}  // namespace hymn
