#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "preload/calls.hpp"

namespace hymn::preload {
namespace {

template <class Function>
void find(Function*& function, const std::string& name) {
  void* const found = ::dlsym(RTLD_NEXT, name.c_str());
  if (found == nullptr) {
    std::fprintf(stderr, "libhymn-preload.so: no library behind it has %s\n", name.c_str());
    std::abort();
  }
  function = reinterpret_cast<Function*>(found);
}

Next find_all(const std::string& prefix) {
  Next next;
#define HYMN_CALL(kind, name, parameters, facts, ...) find(next.name, prefix + #name);
#include "preload/calls.inc"
#undef HYMN_CALL
  find(next.Init, prefix + "Init");
  find(next.Init_thread, prefix + "Init_thread");
  find(next.Finalize, prefix + "Finalize");
  return next;
}

}  // namespace

constinit std::atomic<const Next*> known_pmpi{nullptr};
constinit std::atomic<const Next*> known_mpi{nullptr};

const Next& find_pmpi() {
  static const Next next = find_all("PMPI_");
  known_pmpi.store(&next, std::memory_order_release);
  return next;
}

const Next& find_mpi() {
  static const Next next = find_all("MPI_");
  known_mpi.store(&next, std::memory_order_release);
  return next;
}

}  // namespace hymn::preload
