// The collectives of the module: the blocking form, and its nonblocking twin with an i in its name.
#include "fortran/call.h"

#define UNPACK(...) __VA_ARGS__
#define TAIL \
  const hymnDataType_t *dtype, hymnStream_t const *stream, int *stat, const CFI_cdesc_t *errmsg

// TWINS(NAME, name, RUN, PARAMETERS, FIELDS): both, of which RUN is the function that carries them
// out. They are functions of their own, which return to where the program has called them.
#define TWINS(Name, name, run, PARAMETERS, FIELDS)                                                \
  HYMN_API void hymnFortran##Name(UNPACK PARAMETERS, const hymnGroup_t* group, TAIL) {            \
    const FortranArguments given = {UNPACK FIELDS, .group = group, .dtype = dtype,                \
                                    .stream = stream};                                            \
    FORTRAN_BEGIN("hymn_" #name, *group);                                                         \
    run(&report, hymnCollective##Name, &given);                                                   \
    FORTRAN_END;                                                                                  \
  }                                                                                               \
  HYMN_API void hymnFortranI##Name(UNPACK PARAMETERS, const hymnGroup_t* group, hymnWork_t* work, \
                                   TAIL) {                                                        \
    const FortranArguments given = {UNPACK FIELDS, .group = group, .dtype = dtype,                \
                                    .stream = stream, .work = work};                              \
    FORTRAN_BEGIN("hymn_i" #name, *group);                                                        \
    run(&report, hymnCollective##Name, &given);                                                   \
    FORTRAN_END;                                                                                  \
  }

#define BUFFERS const CFI_cdesc_t *send, const CFI_cdesc_t *recv
#define BOTH .send = send, .recv = recv

TWINS(AllReduce, all_reduce, fortran_collective, (BUFFERS, const hymnOp_t* op), (BOTH, .op = op))
TWINS(Scan, scan, fortran_collective, (BUFFERS, const hymnOp_t* op), (BOTH, .op = op))
TWINS(Exscan, exscan, fortran_collective, (BUFFERS, const hymnOp_t* op), (BOTH, .op = op))
TWINS(ReduceScatter, reduce_scatter, fortran_collective, (BUFFERS, const hymnOp_t* op),
      (BOTH, .op = op))
TWINS(Reduce, reduce, fortran_collective, (BUFFERS, const hymnOp_t* op, const int* root),
      (BOTH, .op = op, .root = root))
TWINS(Broadcast, broadcast, fortran_collective, (const CFI_cdesc_t* recv, const int* root),
      (.recv = recv, .root = root))
TWINS(Gather, gather, fortran_collective, (BUFFERS, const int* root), (BOTH, .root = root))
TWINS(Scatter, scatter, fortran_collective, (BUFFERS, const int* root), (BOTH, .root = root))
TWINS(AllGather, all_gather, fortran_collective, (BUFFERS), (BOTH))
TWINS(AllToAll, all_to_all, fortran_collective, (BUFFERS), (BOTH))
