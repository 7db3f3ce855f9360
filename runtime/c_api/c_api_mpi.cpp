// The C API: a world from an application's own communicator.
#include "hymn/hymn_mpi.h"
#include "hymn/interop_mpi.hpp"
#include "runtime/c_api/c_api.hpp"

using namespace hymn::c_api;  // NOLINT: the function below stands in no namespace

hymnResult_t hymnInitFromComm(hymnWorld_t* world, MPI_Comm communicator,
                              const hymnWorldOptions_t* options) {
  return guarded(__func__, [&] {
    *need(world, "world") = nullptr;
    *world = make_world(hymn::world_from_communicator(communicator, world_options(options)));
  });
}
