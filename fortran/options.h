// Options of worlds and groups as the arguments that may be absent, which are NULL then.
#pragma once

#include "fortran/text.h"

typedef struct {
  const double* timeout;
  const int* progress_thread;
  const CFI_cdesc_t* path;
  const CFI_cdesc_t* algo;
  const int* reproducibility;
  const int* thread_level;
} FortranWorldOptions;

typedef struct {
  const double* timeout;
  const CFI_cdesc_t* description;
  const CFI_cdesc_t* path;
  const CFI_cdesc_t* algo;
  const int* reproducibility;
  const _Bool* local_sync;
  const CFI_cdesc_t* tag;
} FortranGroupOptions;

/// With texts of their own, to be freed.
hymnWorldOptions_t fortran_world_options(FortranReport* report, const FortranWorldOptions* given);
hymnGroupOptions_t fortran_group_options(FortranReport* report, const FortranGroupOptions* given);
