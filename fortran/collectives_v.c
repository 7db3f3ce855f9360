// The collectives of the module with a v at their end: blocking and nonblocking ones.
#include "fortran/call.h"

#define UNPACK_V(...) __VA_ARGS__
#define TAIL_V \
  const hymnDataType_t *dtype, hymnStream_t const *stream, int *stat, const CFI_cdesc_t *errmsg

// As TWINS in collectives.c.
#define TWINS_V(Name, name, PARAMETERS, FIELDS)                                               \
  HYMN_API void hymnFortran##Name##v(UNPACK_V PARAMETERS, const hymnGroup_t* group, TAIL_V) { \
    const FortranArguments given = {UNPACK_V FIELDS, .group = group, .dtype = dtype,          \
                                    .stream = stream};                                        \
    FORTRAN_BEGIN("hymn_" #name "v", *group);                                                 \
    fortran_collective_v(&report, hymnCollective##Name, &given);                              \
    FORTRAN_END;                                                                              \
  }                                                                                           \
  HYMN_API void hymnFortranI##Name##v(UNPACK_V PARAMETERS, const hymnGroup_t* group,          \
                                      hymnWork_t* work, TAIL_V) {                             \
    const FortranArguments given = {UNPACK_V FIELDS, .group = group, .dtype = dtype,          \
                                    .stream = stream, .work = work};                          \
    FORTRAN_BEGIN("hymn_i" #name "v", *group);                                                \
    fortran_collective_v(&report, hymnCollective##Name, &given);                              \
    FORTRAN_END;                                                                              \
  }

#define BUFFERS_V const CFI_cdesc_t *send, const CFI_cdesc_t *recv, const CFI_cdesc_t *counts
#define ALL_V .send = send, .recv = recv, .sendcounts = counts

TWINS_V(Gather, gather, (BUFFERS_V, const int* root), (ALL_V, .root = root))
TWINS_V(Scatter, scatter, (BUFFERS_V, const int* root), (ALL_V, .root = root))
TWINS_V(AllGather, all_gather, (BUFFERS_V), (ALL_V))
TWINS_V(ReduceScatter, reduce_scatter, (BUFFERS_V, const hymnOp_t* op), (ALL_V, .op = op))
TWINS_V(AllToAll, all_to_all, (BUFFERS_V, const CFI_cdesc_t* recvcounts),
        (ALL_V, .recvcounts = recvcounts))
