// Groups.
#include <stdlib.h>

#include "fortran/call.h"
#include "fortran/options.h"
#include "fortran/pack.h"

hymnGroupOptions_t fortran_group_options(FortranReport* report, const FortranGroupOptions* given) {
  hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
  if (given->timeout != NULL) options.timeout_seconds = *given->timeout;
  if (given->reproducibility != NULL) options.reproducibility = *given->reproducibility;
  if (given->local_sync != NULL) options.local_sync = *given->local_sync;
  options.description = fortran_text(report, given->description);
  options.path = fortran_text(report, given->path);
  options.algo = fortran_text(report, given->algo);
  options.tag = fortran_text(report, given->tag);
  return options;
}

static void free_group_texts(hymnGroupOptions_t* options) {
  free((char*)options->description);
  free((char*)options->path);
  free((char*)options->algo);
  free((char*)options->tag);
}

// Ranks of the world, to be freed.
static int* ranks_of(FortranReport* report, const CFI_cdesc_t* ranks, size_t n) {
  int* list = malloc((n + 1) * sizeof *list);
  if (list == NULL) {
    fortran_fault(report, hymnResourceError, "no memory for %zu ranks", n);
    return NULL;
  }
  for (size_t i = 0; i < n; ++i)
    list[i] =
        *(const int*)(const void*)((const char*)ranks->base_addr + (ptrdiff_t)i * ranks->dim[0].sm);
  return list;
}

#define GROUP_TAIL                                                                  \
  const double *timeout, const CFI_cdesc_t *description, const CFI_cdesc_t *path,   \
      const CFI_cdesc_t *algo, const int *reproducibility, const _Bool *local_sync, \
      const CFI_cdesc_t *tag, int *stat, const CFI_cdesc_t *errmsg
#define GROUP_OPTIONS {timeout, description, path, algo, reproducibility, local_sync, tag}

HYMN_API void hymnFortranGroupCreate(const hymnWorld_t* world, const CFI_cdesc_t* ranks,
                                     hymnGroup_t* group, GROUP_TAIL) {
  const FortranGroupOptions given = GROUP_OPTIONS;
  FORTRAN_BEGIN("hymn_group_create", NULL);
  *group = NULL;
  const size_t n = fortran_elements(ranks);
  int* list = ranks_of(&report, ranks, n);
  hymnGroupOptions_t options = fortran_group_options(&report, &given);
  if (report.result == hymnSuccess)
    fortran_check(&report, hymnGroupCreate(*world, list, n, &options, group));
  free_group_texts(&options);
  free(list);
  FORTRAN_END;
}

HYMN_API void hymnFortranGroupSplit(const hymnGroup_t* group, const int* color, const int* key,
                                    hymnGroup_t* split, GROUP_TAIL) {
  const FortranGroupOptions given = GROUP_OPTIONS;
  FORTRAN_BEGIN("hymn_group_split", *group);
  *split = NULL;
  hymnGroupOptions_t options = fortran_group_options(&report, &given);
  if (report.result == hymnSuccess)
    fortran_check(&report, hymnGroupSplit(*group, *color, *key, &options, split));
  free_group_texts(&options);
  FORTRAN_END;
}

HYMN_API void hymnFortranGroupFind(const hymnWorld_t* world, const CFI_cdesc_t* tag,
                                   const CFI_cdesc_t* ranks, hymnGroup_t* group, int* stat,
                                   const CFI_cdesc_t* errmsg) {
  FORTRAN_BEGIN("hymn_group_find", NULL);
  *group = NULL;
  const size_t n = fortran_elements(ranks);
  int* list = ranks_of(&report, ranks, n);
  char* text = fortran_text(&report, tag);
  if (report.result == hymnSuccess)
    fortran_check(&report, hymnGroupFind(*world, text, list, n, group));
  free(text);
  free(list);
  FORTRAN_END;
}

HYMN_API void hymnFortranGroupTag(const hymnGroup_t* group, const char** tag, int* stat) {
  const CFI_cdesc_t* const errmsg = NULL;  // set by hymn.f90
  FORTRAN_BEGIN("hymn_group_tag", *group);
  *tag = "";
  fortran_check(&report, hymnGroupTag(*group, tag));
  FORTRAN_END;
}

HYMN_API void hymnFortranGroupDestroy(const hymnGroup_t* group, int* stat,
                                      const CFI_cdesc_t* errmsg) {
  FORTRAN_BEGIN("hymn_group_destroy", *group);
  fortran_check(&report, hymnGroupDestroy(*group));
  FORTRAN_END;
}

HYMN_API void hymnFortranGroupAbort(const hymnGroup_t* group, const CFI_cdesc_t* reason, int* stat,
                                    const CFI_cdesc_t* errmsg) {
  FORTRAN_BEGIN("hymn_group_abort", *group);
  char* text = fortran_text(&report, reason);
  if (report.result == hymnSuccess) fortran_check(&report, hymnGroupAbort(*group, text));
  free(text);
  FORTRAN_END;
}

HYMN_API void hymnFortranGroupFree(hymnGroup_t* group, int* stat, const CFI_cdesc_t* errmsg) {
  FORTRAN_BEGIN("hymn_group_free", NULL);
  fortran_check(&report, hymnGroupFree(*group));
  if (report.result != hymnUsageError) *group = NULL;  // it was not refused
  FORTRAN_END;
}

// OF_GROUP(NAME, name, FUNCTION, TYPE): what a group is asked; OF_MEMBER: of one of its members. -1
// where it does not answer.
#define OF_GROUP(Name, name, function, Type)                                             \
  HYMN_API void hymnFortranGroup##Name(const hymnGroup_t* group, Type* value, int* stat, \
                                       const CFI_cdesc_t* errmsg) {                      \
    FORTRAN_BEGIN("hymn_group_" #name, *group);                                          \
    *value = -1;                                                                         \
    fortran_check(&report, function(*group, value));                                     \
    FORTRAN_END;                                                                         \
  }
#define OF_MEMBER(Name, name, function)                                                         \
  HYMN_API void hymnFortranGroup##Name(const hymnGroup_t* group, const int* member, int* value, \
                                       int* stat, const CFI_cdesc_t* errmsg) {                  \
    FORTRAN_BEGIN("hymn_group_" #name, *group);                                                 \
    *value = -1;                                                                                \
    fortran_check(&report, function(*group, *member, value));                                   \
    FORTRAN_END;                                                                                \
  }
OF_GROUP(Rank, rank, hymnGroupRank, int)
OF_GROUP(Size, size, hymnGroupSize, int)
OF_GROUP(GetTimeout, get_timeout, hymnGroupGetTimeout, double)
OF_MEMBER(ToGlobal, to_global, hymnGroupToGlobal)
OF_MEMBER(FromGlobal, from_global, hymnGroupFromGlobal)

HYMN_API void hymnFortranGroupSetTimeout(const hymnGroup_t* group, const double* timeout, int* stat,
                                         const CFI_cdesc_t* errmsg) {
  FORTRAN_BEGIN("hymn_group_set_timeout", *group);
  fortran_check(&report, hymnGroupSetTimeout(*group, *timeout));
  FORTRAN_END;
}

HYMN_API void hymnFortranBarrier(const hymnGroup_t* group, hymnStream_t const* stream, int* stat,
                                 const CFI_cdesc_t* errmsg) {
  FORTRAN_BEGIN("hymn_barrier", *group);
  fortran_check(&report, hymnBarrier(*group, stream != NULL ? *stream : NULL));
  FORTRAN_END;
}

HYMN_API void hymnFortranIBarrier(const hymnGroup_t* group, hymnWork_t* work,
                                  hymnStream_t const* stream, int* stat,
                                  const CFI_cdesc_t* errmsg) {
  FORTRAN_BEGIN("hymn_ibarrier", *group);
  *work = NULL;
  fortran_check(&report, hymnIBarrier(*group, stream != NULL ? *stream : NULL, work));
  FORTRAN_END;
}
