// Operations in flight. As with MPI's requests, a wait that reports the end of one frees it, and
// makes its handle null.
#include <stdlib.h>

#include "fortran/call.h"
#include "fortran/pack.h"

static FortranReport waiting_for(const char* procedure, int* stat, const CFI_cdesc_t* errmsg) {
  return (FortranReport){.procedure = procedure, .stat = stat, .errmsg = errmsg};
}

static void free_work(hymnWork_t* work) {
  if (*work != NULL) (void)hymnWorkFree(*work);
  *work = NULL;
}

// Whether the wait has reported how this operation ended, and not that the wait itself has: then
// it is in flight, or its end is still to be told. To look moves nothing forward.
static bool has_told_the_end(const FortranReport* report, hymnWork_t work) {
  hymnResult_t error = hymnSuccess;
  return hymnWorkError(work, &error) == hymnSuccess && error != hymnSuccess &&
         fortran_has_reported(report, error);
}

// What is no receive has received nothing, which `status`, unless NULL, says then.
static void get_status(hymnWork_t work, hymnRecvStatus_t* status) {
  if (status != NULL && hymnWorkStatus(work, 0, status) != hymnSuccess) *status = fortran_no_status;
}

HYMN_API void hymnFortranWait(hymnWork_t* work, const double* timeout, hymnRecvStatus_t* status,
                              int* stat, const CFI_cdesc_t* errmsg) {
  FortranReport report = waiting_for("hymn_wait", stat, errmsg);
  if (status != NULL) *status = fortran_no_status;
  fortran_check(&report,
                timeout == NULL ? hymnWorkWait(*work) : hymnWorkWaitTimeout(*work, *timeout));
  if (report.result == hymnSuccess) get_status(*work, status);
  if (report.result == hymnSuccess || has_told_the_end(&report, *work)) free_work(work);
  fortran_finish(&report);
}

HYMN_API void hymnFortranTest(hymnWork_t* work, int* done, hymnRecvStatus_t* status, int* stat) {
  FortranReport report = waiting_for("hymn_test", stat, NULL);
  *done = 0;
  if (status != NULL) *status = fortran_no_status;
  fortran_check(&report, hymnWorkTest(*work, done));
  // Done, so that this returns at once, with the error if it has failed.
  if (report.result == hymnSuccess && *done) fortran_check(&report, hymnWorkWait(*work));
  if (report.result == hymnSuccess && *done) get_status(*work, status);
  if (*done) free_work(work);
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

// Where it has failed otherwise than by the error of the first that has, not all have completed, or
// there is more to tell.
static bool have_all_ended(const FortranReport* report, const hymnWork_t* list, size_t n) {
  if (report->result == hymnSuccess) return true;
  for (size_t i = 0; i < n; ++i)
    if (list[i] != NULL && has_told_the_end(report, list[i])) return true;
  return false;
}

HYMN_API void hymnFortranWaitAll(const CFI_cdesc_t* works, const double* timeout, int* stat,
                                 const CFI_cdesc_t* errmsg) {
  FortranReport report = waiting_for("hymn_wait_all", stat, errmsg);
  const size_t n = fortran_elements(works);
  hymnWork_t* list = list_of(&report, works, n);
  if (list != NULL) {
    fortran_check(&report, hymnWaitAll(list, n, timeout == NULL ? HYMN_TIMEOUT_DEFAULT : *timeout));
    if (have_all_ended(&report, list, n))
      for (size_t i = 0; i < n; ++i) free_work(&list[i]);
    put_back(works, list, n);
    free(list);
  }
  fortran_finish(&report);
}

// *index is counted from 1; 0: none has completed.
HYMN_API void hymnFortranWaitAny(const CFI_cdesc_t* works, int* index, const double* timeout,
                                 hymnRecvStatus_t* status, int* stat, const CFI_cdesc_t* errmsg) {
  FortranReport report = waiting_for("hymn_wait_any", stat, errmsg);
  const size_t n = fortran_elements(works);
  size_t first = 0;
  hymnWork_t* list = list_of(&report, works, n);
  *index = 0;
  if (status != NULL) *status = fortran_no_status;
  if (list != NULL) {
    fortran_check(&report,
                  hymnWaitAny(list, n, timeout == NULL ? HYMN_TIMEOUT_DEFAULT : *timeout, &first));
    if (report.result == hymnSuccess) {
      *index = (int)first + 1;
      fortran_check(&report, hymnWorkWait(list[first]));
      if (report.result == hymnSuccess) get_status(list[first], status);
      free_work(&list[first]);
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
