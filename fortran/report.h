// How the Fortran module's functions tell what went wrong: by stat and errmsg, or by ending the
// program.
#pragma once

#include <stdbool.h>

#include "fortran/binding.h"
#include "hymn/hymn.h"

/// What every function of the module is told, and what its failure names. Where `stat` is NULL a
/// failure ends the program, as an error of MPI does by default.
typedef struct {
  const char* procedure;      ///< as the program calls it: "hymn_all_reduce"
  hymnGroup_t group;          ///< NULL: it is of none
  int* stat;                  ///< NULL: absent
  const CFI_cdesc_t* errmsg;  ///< NULL: absent
  hymnResult_t result;        ///< so far
  bool is_own;                ///< the module has found the fault: nothing has been started
} FortranReport;

/// Sets the text that is to be reported with `code`: the module found the fault itself. The text
/// names the procedure, and where there is a group, this rank and the group.
__attribute__((format(printf, 3, 4))) void fortran_fault(FortranReport* report, hymnResult_t code,
                                                         const char* format, ...);
/// The result of a function of the C API: its text is taken over, with the procedure's name in the
/// place of that function's. Does nothing where the report has failed already.
void fortran_check(FortranReport* report, hymnResult_t result);
/// Whether hymnGetLastError has what fortran_check has taken over, but for the names of functions.
bool fortran_has_reported(const FortranReport* report, hymnResult_t result);
/// Sets stat and errmsg, or ends the program. The last thing that a function of the module does.
void fortran_finish(const FortranReport* report);
/// The text of the last failure on this thread, "" if there was none.
const char* fortran_last_error(void);
