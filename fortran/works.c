// Operations in flight. As with MPI's requests, who has waited for one has no handle of it any
// more: those that have completed are freed, and null.
#include <stdlib.h>

#include "fortran/call.h"

static FortranReport waiting_for(const char* procedure, int* stat, const CFI_cdesc_t* errmsg) {
  return (FortranReport){.procedure = procedure, .stat = stat, .errmsg = errmsg};
}

static void free_completed(hymnWork_t* work) {
  int done = 0;
  if (*work == NULL || hymnWorkTest(*work, &done) != hymnSuccess || !done) return;
  (void)hymnWorkFree(*work);
  *work = NULL;
}

HYMN_API void hymnFortranWait(hymnWork_t* work, const double* timeout, hymnRecvStatus_t* status,
                              int* stat, const CFI_cdesc_t* errmsg) {
  FortranReport report = waiting_for("hymn_wait", stat, errmsg);
  fortran_check(&report,
                timeout == NULL ? hymnWorkWait(*work) : hymnWorkWaitTimeout(*work, *timeout));
  if (report.result == hymnSuccess && status != NULL)
    fortran_check(&report, hymnWorkStatus(*work, 0, status));
  free_completed(work);
  fortran_finish(&report);
}

HYMN_API void hymnFortranTest(hymnWork_t* work, int* done, hymnRecvStatus_t* status, int* stat) {
  FortranReport report = waiting_for("hymn_test", stat, NULL);
  *done = 0;
  fortran_check(&report, hymnWorkTest(*work, done));
  // Done, so that this returns at once, with the error if it has failed.
  if (report.result == hymnSuccess && *done) fortran_check(&report, hymnWorkWait(*work));
  if (report.result == hymnSuccess && *done && status != NULL)
    fortran_check(&report, hymnWorkStatus(*work, 0, status));
  if (*done) free_completed(work);
  fortran_finish(&report);
}

// The handles of an array, one after the other; to be freed.
static hymnWork_t* list_of(FortranReport* report, const CFI_cdesc_t* works, size_t n) {
  hymnWork_t* list = malloc((n + 1) * sizeof *list);
  if (list == NULL) {
    fortran_fault(report, hymnResourceError, "no memory for a list of %zu operations", n);
    return NULL;
  }
  for (size_t i = 0; i < n; ++i)
    list[i] = *(hymnWork_t*)(void*)((char*)works->base_addr + (ptrdiff_t)i * works->dim[0].sm);
  return list;
}

static void put_back(const CFI_cdesc_t* works, const hymnWork_t* list, size_t n) {
  for (size_t i = 0; i < n; ++i)
    *(hymnWork_t*)(void*)((char*)works->base_addr + (ptrdiff_t)i * works->dim[0].sm) = list[i];
}

HYMN_API void hymnFortranWaitAll(const CFI_cdesc_t* works, const double* timeout, int* stat,
                                 const CFI_cdesc_t* errmsg) {
  FortranReport report = waiting_for("hymn_wait_all", stat, errmsg);
  const size_t n = (size_t)works->dim[0].extent;
  hymnWork_t* list = list_of(&report, works, n);
  if (list != NULL) {
    fortran_check(&report, hymnWaitAll(list, n, timeout == NULL ? HYMN_TIMEOUT_DEFAULT : *timeout));
    for (size_t i = 0; i < n; ++i) free_completed(&list[i]);
    put_back(works, list, n);
    free(list);
  }
  fortran_finish(&report);
}

// *index is counted from 1; 0: none has completed.
HYMN_API void hymnFortranWaitAny(const CFI_cdesc_t* works, int* index, const double* timeout,
                                 hymnRecvStatus_t* status, int* stat, const CFI_cdesc_t* errmsg) {
  FortranReport report = waiting_for("hymn_wait_any", stat, errmsg);
  const size_t n = (size_t)works->dim[0].extent;
  size_t first = 0;
  hymnWork_t* list = list_of(&report, works, n);
  *index = 0;
  if (list != NULL) {
    fortran_check(&report,
                  hymnWaitAny(list, n, timeout == NULL ? HYMN_TIMEOUT_DEFAULT : *timeout, &first));
    if (report.result == hymnSuccess) {
      *index = (int)first + 1;
      fortran_check(&report, hymnWorkWait(list[first]));
      if (report.result == hymnSuccess && status != NULL)
        fortran_check(&report, hymnWorkStatus(list[first], 0, status));
      free_completed(&list[first]);
    }
    put_back(works, list, n);
    free(list);
  }
  fortran_finish(&report);
}

HYMN_API void hymnFortranWorkWaitOn(const hymnWork_t* work, hymnStream_t const* stream, int* stat,
                                    const CFI_cdesc_t* errmsg) {
  FortranReport report = waiting_for("hymn_work_wait_on", stat, errmsg);
  fortran_check(&report, hymnWorkWaitOn(*work, *stream));
  fortran_finish(&report);
}

HYMN_API void hymnFortranWorkFree(hymnWork_t* work, int* stat, const CFI_cdesc_t* errmsg) {
  FortranReport report = waiting_for("hymn_work_free", stat, errmsg);
  fortran_check(&report, hymnWorkFree(*work));
  if (report.result == hymnSuccess) *work = NULL;
  fortran_finish(&report);
}
