// User-defined reductions.
#include "fortran/call.h"

HYMN_API void hymnFortranOpCreate(hymnOpFunction_t function, const size_t* value_bytes,
                                  const int* commutative, hymnOp_t* op, void* const* context,
                                  int* stat) {
  const CFI_cdesc_t* const errmsg = NULL;  // set by hymn.f90
  FORTRAN_BEGIN("hymn_op_create", NULL);
  *op = hymnSum;
  fortran_check(&report, hymnOpCreate(function, context != NULL ? *context : NULL, *value_bytes,
                                      *commutative, op));
  FORTRAN_END;
}

HYMN_API void hymnFortranOpFree(hymnOp_t* op, int* stat, const CFI_cdesc_t* errmsg) {
  FORTRAN_BEGIN("hymn_op_free", NULL);
  fortran_check(&report, hymnOpFree(op));
  FORTRAN_END;
}

HYMN_API void hymnFortranOpMinLoc(const hymnDataType_t* dtype, hymnOp_t* op, int* stat,
                                  const CFI_cdesc_t* errmsg) {
  FORTRAN_BEGIN("hymn_op_minloc", NULL);
  *op = hymnSum;
  fortran_check(&report, hymnOpMinLoc(*dtype, op));
  FORTRAN_END;
}

HYMN_API void hymnFortranOpMaxLoc(const hymnDataType_t* dtype, hymnOp_t* op, int* stat,
                                  const CFI_cdesc_t* errmsg) {
  FORTRAN_BEGIN("hymn_op_maxloc", NULL);
  *op = hymnSum;
  fortran_check(&report, hymnOpMaxLoc(*dtype, op));
  FORTRAN_END;
}
