// What a program, or a test, may ask of the preload: by dlsym(RTLD_DEFAULT, …), as it may not be
// there.
#include "hymn/export.hpp"
#include "preload/session.hpp"

/// How many calls of this name ("MPI_Allreduce") this process has made that hymn has carried; -1:
/// there is no such call, or the preload does nothing here.
extern "C" HYMN_API long long hymnPreloadCarried(const char* name) {
  using namespace hymn::preload;
  const Session* const session = Session::current();
  for (std::size_t i = 0; session != nullptr && i < call_count; ++i)
    if (call_names[i] == name)
      return static_cast<long long>(session->counts()
                                        .of(static_cast<Call>(i))
                                        .reasons[static_cast<std::size_t>(Reason::carried)]
                                        .load());
  return -1;
}

/// How many requests of this process are recorded as being in flight; -1: nothing is recorded.
extern "C" HYMN_API long long hymnPreloadOpenRequests() {
  using namespace hymn::preload;
  const Session* const session = Session::current();
  if (session == nullptr || session->watch() == nullptr) return -1;
  return static_cast<long long>(session->watch()->requests().count());
}
