#include "tests/support/create_group.hpp"

#include <dlfcn.h>
#include <mpi.h>

namespace hymn::test {

CreateGroup& create_group() {
  static auto* only = new CreateGroup();  // a thread that never comes back may be in it at the end
  return *only;
}

int communicators_made_by(const std::function<void()>& make) {
  const int before = create_group().calls;
  make();
  return create_group().calls - before;
}

}  // namespace hymn::test

// hymn's own call passes here on its way to MPI.
extern "C" __attribute__((visibility("default"))) int PMPI_Comm_create_group(MPI_Comm communicator,
                                                                             MPI_Group group,
                                                                             int tag,
                                                                             MPI_Comm* made) {
  using Create = int (*)(MPI_Comm, MPI_Group, int, MPI_Comm*);
  static const auto real = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "PMPI_Comm_create_group"));
  hymn::test::CreateGroup& seen = hymn::test::create_group();
  ++seen.calls;
  seen.before();
  const int code = real(communicator, group, tag, made);
  seen.after();
  return code;
}
