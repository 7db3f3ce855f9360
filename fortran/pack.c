#include "fortran/pack.h"

#include <string.h>

// Where another dimension is empty the array is, however long the last one may be.
bool fortran_may_be_assumed_size(const CFI_cdesc_t* array) {
  if (array->rank == 0 || array->dim[array->rank - 1].extent != -1) return false;
  for (int i = 0; i + 1 < array->rank; ++i)
    if (array->dim[i].extent <= 0) return false;
  return true;
}

bool fortran_is_empty_constant(const CFI_cdesc_t* array) {
  bool is_empty = false;
  for (int i = 0; i < array->rank; ++i) {
    if (array->dim[i].extent < 0) return false;
    if (array->dim[i].extent == 0) is_empty = true;
  }
  return is_empty && array->base_addr == NULL;
}

size_t fortran_elements(const CFI_cdesc_t* array) {
  size_t elements = 1;
  for (int i = 0; i < array->rank; ++i)
    elements *= array->dim[i].extent > 0 ? (size_t)array->dim[i].extent : 0;
  return elements;
}

// As long as `*dimensions` of them, or all: the bytes of the leading dimensions that lie one after
// the other.
static size_t contiguous_run(const CFI_cdesc_t* array, int* dimensions) {
  size_t bytes = array->elem_len;
  for (*dimensions = 0; *dimensions < array->rank; ++*dimensions) {
    const CFI_dim_t* dim = &array->dim[*dimensions];
    if (dim->extent != 1 && dim->sm != (CFI_index_t)bytes) break;
    bytes *= (size_t)dim->extent;
  }
  return bytes;
}

bool fortran_is_contiguous(const CFI_cdesc_t* array) {
  int dimensions = 0;
  if (fortran_elements(array) <= 1) return true;
  (void)contiguous_run(array, &dimensions);
  return dimensions == array->rank;
}

// The first index, above those of a run, that has not come to its end goes on, and those below
// begin again. false: all have been there.
static bool next_run(const CFI_cdesc_t* array, int first, CFI_index_t* index, char** at) {
  for (int i = first; i < array->rank; ++i) {
    *at += array->dim[i].sm;
    if (++index[i] < array->dim[i].extent) return true;
    *at -= array->dim[i].extent * array->dim[i].sm;
    index[i] = 0;
  }
  return false;
}

void fortran_gather_elements(const CFI_cdesc_t* array, void* packed) {
  if (fortran_elements(array) == 0) return;
  CFI_index_t index[CFI_MAX_RANK] = {0};
  int first = 0;
  const size_t run = contiguous_run(array, &first);
  char *at = array->base_addr, *to = packed;
  do {
    memcpy(to, at, run);
    to += run;
  } while (next_run(array, first, index, &at));
}

void fortran_scatter_elements(const void* packed, const CFI_cdesc_t* array) {
  if (fortran_elements(array) == 0) return;
  CFI_index_t index[CFI_MAX_RANK] = {0};
  int first = 0;
  const size_t run = contiguous_run(array, &first);
  char* at = array->base_addr;
  const char* from = packed;
  do {
    memcpy(at, from, run);
    from += run;
  } while (next_run(array, first, index, &at));
}
