// What the functions behind the module are given, and the parts of a call that they share.
//
// Each of these functions is what a procedure of hymn.f90 is bound to: what is called is this C
// function, so that it returns to the line of the program.
#pragma once

#include "fortran/array.h"

/// What is told where nothing was received, or no message is pending: as the types' own defaults.
static const hymnRecvStatus_t fortran_no_status = {.source = -1};
static const hymnMessageInfo_t fortran_no_message = {.source = -1};

/// What a collective is given; what it has no argument for is NULL.
typedef struct {
  const CFI_cdesc_t* send;
  const CFI_cdesc_t* recv;
  const CFI_cdesc_t* sendcounts;  ///< or counts
  const CFI_cdesc_t* recvcounts;
  const hymnOp_t* op;
  const int* root;
  const hymnGroup_t* group;
  const hymnDataType_t* dtype;
  hymnStream_t const* stream;
  hymnWork_t* work;  ///< NULL: the blocking form
} FortranArguments;

/// A collective of equal blocks, or of none.
void fortran_collective(FortranReport* report, hymnCollective_t collective,
                        const FortranArguments* given);
/// A collective of blocks of given sizes.
void fortran_collective_v(FortranReport* report, hymnCollective_t collective,
                          const FortranArguments* given);

/// What both begin with: the group's size, and this rank's place in it, -1 outside.
typedef struct {
  int size;
  int rank;
  bool is_root;
} FortranPlace;
FortranPlace fortran_place(FortranReport* report, const FortranArguments* given);

/// Whether this rank sends from, or receives into, a buffer of its own.
bool fortran_sends(hymnCollective_t collective, const FortranPlace* place);
bool fortran_receives(hymnCollective_t collective, const FortranPlace* place);

/// Packs a buffer that is not contiguous, or refuses one that cannot be.
void fortran_prepare(FortranReport* report, const FortranArguments* given, FortranBuffer* buffer);

/// Calls of this thread come from where `report`'s function returns to.
#define FORTRAN_BEGIN(name, its_group)                                            \
  FortranReport report = {                                                        \
      .procedure = (name), .group = (its_group), .stat = stat, .errmsg = errmsg}; \
  hymnThreadSetCaller(__builtin_return_address(0))
#define FORTRAN_END          \
  hymnThreadSetCaller(NULL); \
  fortran_finish(&report)
