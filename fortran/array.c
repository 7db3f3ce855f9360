#include "fortran/array.h"

#include <stdlib.h>
#include <string.h>

#include "fortran/pack.h"
#include "fortran/types.h"

/// In hymn.f90: hymn_in_place, which is known by where it lies.
extern HYMN_API int hymnFortranInPlace;  // NOLINT(readability-identifier-naming): as functions

bool fortran_is_in_place(const CFI_cdesc_t* array) {
  return array->base_addr == (void*)&hymnFortranInPlace;
}

FortranBuffer fortran_open(FortranReport* report, const char* name, const CFI_cdesc_t* array,
                           const hymnDataType_t* dtype) {
  FortranBuffer buffer = {.name = name, .array = array, .data = array->base_addr};
  if (array->base_addr == NULL && !fortran_is_empty_constant(array)) {
    fortran_fault(report, hymnUsageError, "%s is not allocated, or not associated", name);
    return buffer;
  }
  if (fortran_is_in_place(array)) {
    fortran_fault(report, hymnUsageError, "%s cannot be hymn_in_place in this call on this rank",
                  name);
    return buffer;
  }
  if (fortran_may_be_assumed_size(array)) {
    fortran_fault(report, hymnUsageError,
                  "%s is an assumed-size array, whose size is unknown, or an empty section such as "
                  "a(2:0), which gfortran does not tell from one; remedy: pass a section with its "
                  "end, as a(1:n), where n may be 0",
                  name);
    return buffer;
  }
  buffer.count = fortran_elements(array);
  buffer.is_logical = fortran_is_logical(array);
  buffer.dtype = fortran_dtype(report, name, array, dtype);
  return buffer;
}

void fortran_pack(FortranReport* report, FortranBuffer* buffer) {
  if (report->result != hymnSuccess || fortran_is_contiguous(buffer->array)) return;
  buffer->packed = malloc(buffer->count * buffer->array->elem_len);
  if (buffer->packed == NULL) {
    fortran_fault(report, hymnResourceError, "no memory for a copy of %s, which is not contiguous",
                  buffer->name);
    return;
  }
  fortran_gather_elements(buffer->array, buffer->packed);
  buffer->data = buffer->packed;
}

void fortran_refuse_strides(FortranReport* report, const FortranBuffer* buffer) {
  if (report->result != hymnSuccess || fortran_is_contiguous(buffer->array)) return;
  fortran_fault(
      report, hymnUsageError,
      "%s is not contiguous, and a nonblocking call, or one that is given a stream, copies "
      "nothing; remedy: give it a contiguous array, or use the blocking call",
      buffer->name);
}

// MPI cannot take back what it has been given: where an operation has failed it may still read and
// write the copy, which is kept for it (docs/errors.md).
static bool may_be_in_use(const FortranReport* report) {
  return report->result != hymnSuccess && report->result != hymnUsageError &&
         report->result != hymnUnsupportedError && report->result != hymnConfigError &&
         !report->is_own;
}

void fortran_close(const FortranReport* report, FortranBuffer* buffer, bool is_output) {
  if (buffer->packed == NULL) return;
  if (may_be_in_use(report)) return;
  if (is_output && report->result == hymnSuccess)
    fortran_scatter_elements(buffer->packed, buffer->array);
  free(buffer->packed);
  buffer->packed = NULL;
}

void fortran_compare_types(FortranReport* report, const FortranBuffer* one,
                           const FortranBuffer* other) {
  if (report->result != hymnSuccess || one->dtype == other->dtype) return;
  char first[fortran_type_bytes], second[fortran_type_bytes];
  fortran_name_type(one->array, first);
  fortran_name_type(other->array, second);
  fortran_fault(report, hymnUsageError, "%s is of type %s, %s of type %s", one->name, first,
                other->name, second);
}

void fortran_check_op(FortranReport* report, const FortranBuffer* buffer, hymnOp_t op) {
  if (report->result != hymnSuccess || !buffer->is_logical) return;
  if (op == hymnLand || op == hymnLor || op == hymnLxor) return;
  fortran_fault(report, hymnUnsupportedError,
                "%s is logical; only hymn_land, hymn_lor and hymn_lxor apply", buffer->name);
}

size_t* fortran_counts(FortranReport* report, const char* name, const CFI_cdesc_t* counts,
                       size_t* n) {
  if (report->result != hymnSuccess) return NULL;
  *n = counts->base_addr == NULL ? 0 : fortran_elements(counts);
  size_t* list = malloc((*n + 1) * sizeof *list);
  if (list == NULL) {
    fortran_fault(report, hymnResourceError, "no memory for %zu %s", *n, name);
    return NULL;
  }
  for (size_t i = 0; i < *n; ++i) {
    const char* at = (const char*)counts->base_addr + (ptrdiff_t)i * counts->dim[0].sm;
    const int64_t count = counts->elem_len == sizeof(int32_t) ? *(const int32_t*)(const void*)at
                                                              : *(const int64_t*)(const void*)at;
    if (count < 0)
      fortran_fault(report, hymnUsageError, "%s(%zu) is %lld", name, i + 1, (long long)count);
    list[i] = (size_t)count;
  }
  if (report->result == hymnSuccess) return list;
  free(list);
  return NULL;
}
