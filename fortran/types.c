#include "fortran/types.h"

#include <stdio.h>

static int class_of(const CFI_cdesc_t* array) { return array->type & CFI_type_mask; }
static int kind_of(const CFI_cdesc_t* array) { return array->type >> CFI_type_kind_shift; }

bool fortran_is_logical(const CFI_cdesc_t* array) { return class_of(array) == CFI_type_Logical; }

void fortran_name_type(const CFI_cdesc_t* array, char text[fortran_type_bytes]) {
  const char* name = NULL;
  switch (class_of(array)) {
    case CFI_type_Integer:
      name = "integer";
      break;
    case CFI_type_Logical:
      name = "logical";
      break;
    case CFI_type_Real:
      name = "real";
      break;
    case CFI_type_Complex:
      name = "complex";
      break;
    case CFI_type_Character:
      break;
  }
  if (name != NULL)
    snprintf(text, fortran_type_bytes, "%s(%d)", name, kind_of(array));
  else if (class_of(array) == CFI_type_Character)
    snprintf(text, fortran_type_bytes, "character of %zu bytes", array->elem_len);
  else
    snprintf(text, fortran_type_bytes, "a derived type of %zu bytes", array->elem_len);
}

static hymnDataType_t integer_of(size_t bytes) {
  switch (bytes) {
    case 1:
      return hymnInt8;
    case 2:
      return hymnInt16;
    case 4:
      return hymnInt32;
    case 8:
      return hymnInt64;
  }
  return hymnValueBytes;
}

static hymnDataType_t number_of(const CFI_cdesc_t* array) {
  const int kind = kind_of(array);
  switch (class_of(array)) {
    case CFI_type_Integer:
      return integer_of(array->elem_len);
    case CFI_type_Logical:
      return array->elem_len == 1 ? hymnBool : integer_of(array->elem_len);
    case CFI_type_Real:
      return kind == 4 ? hymnFloat32 : kind == 8 ? hymnFloat64 : hymnValueBytes;
    case CFI_type_Complex:
      return kind == 4 ? hymnComplex64 : kind == 8 ? hymnComplex128 : hymnValueBytes;
  }
  return hymnValueBytes;
}

// 0: it is of no type.
static size_t bytes_of(hymnDataType_t dtype) {
  if (dtype > hymnValueBytes) return (size_t)(dtype - hymnValueBytes);
  static const unsigned char bytes[] = {
      [hymnBool] = 1,        [hymnInt8] = 1,       [hymnUint8] = 1,      [hymnInt32] = 4,
      [hymnUint32] = 4,      [hymnInt64] = 8,      [hymnUint64] = 8,     [hymnFloat16] = 2,
      [hymnBfloat16] = 2,    [hymnFloat32] = 4,    [hymnFloat64] = 8,    [hymnComplex64] = 8,
      [hymnComplex128] = 16, [hymnFloat8e4m3] = 1, [hymnFloat8e5m2] = 1, [hymnInt16] = 2,
      [hymnUint16] = 2};
  return (size_t)dtype < sizeof bytes ? bytes[dtype] : 0;
}

hymnDataType_t fortran_dtype(FortranReport* report, const char* name, const CFI_cdesc_t* array,
                             const hymnDataType_t* given) {
  char type[fortran_type_bytes];
  if (given != NULL) {
    if (bytes_of(*given) == array->elem_len) return *given;
    fortran_name_type(array, type);
    fortran_fault(report, hymnUsageError,
                  "%s is of type %s, whose elements have %zu bytes; those of the dtype have %zu",
                  name, type, array->elem_len, bytes_of(*given));
    return *given;
  }
  if (class_of(array) == (CFI_type_other & CFI_type_mask)) {
    fortran_fault(report, hymnUnsupportedError,
                  "%s is polymorphic, or of a type that is not known; remedy: select type", name);
    return hymnUint8;
  }
  const hymnDataType_t dtype = number_of(array);
  if (dtype != hymnValueBytes) return dtype;
  if (array->elem_len > 0 && array->elem_len < (size_t)hymnValueBytes)
    return HYMN_VALUE(array->elem_len);
  fortran_fault(report, hymnUnsupportedError,
                "the elements of %s have %zu bytes; 1 to 16777215 are possible", name,
                array->elem_len);
  return hymnUint8;
}
