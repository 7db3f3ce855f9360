// The constants of hymn.f90, which writes them out, against those of the C API.
#include "hymn/hymn.h"

#define EXPECT_ALL(given, ...)                                                \
  do {                                                                        \
    static const long long expected[] = {__VA_ARGS__};                        \
    enum { count = sizeof expected / sizeof *expected };                      \
    _Static_assert(count == sizeof(given) / sizeof *(given), "one for each"); \
    for (int i = 0; i < count; ++i)                                           \
      if ((long long)(given)[i] != expected[i]) return __LINE__ * 1000 + i;   \
  } while (0)

typedef struct {
  int results[12];
  int dtypes[17];
  int numbers[14];
  double times[2];
  hymnOp_t ops[11];
} Constants;

/// 0, or which one is another: the line above times 1000, and its index.
int compare_constants(const Constants* of);
int compare_constants(const Constants* of) {
  EXPECT_ALL(of->results, hymnSuccess, hymnUsageError, hymnUnsupportedError, hymnConfigError,
             hymnTimeoutError, hymnAbortedError, hymnPeerError, hymnNetworkError, hymnStoreError,
             hymnBackendError, hymnResourceError, hymnInternalError);
  EXPECT_ALL(of->dtypes, hymnBool, hymnInt8, hymnUint8, hymnInt32, hymnUint32, hymnInt64,
             hymnUint64, hymnFloat16, hymnBfloat16, hymnFloat32, hymnFloat64, hymnComplex64,
             hymnComplex128, hymnFloat8e4m3, hymnFloat8e5m2, hymnInt16, hymnUint16);
  EXPECT_ALL(of->numbers, HYMN_ANY_SOURCE, HYMN_NO_COLOR, HYMN_NO_RANK, HYMN_MAX_TAG,
             hymnReproducibleDefault, hymnReproducibleRanks, hymnReproducibleRuns,
             hymnReproduciblePlacement, hymnReproducibleSize, hymnThreadDefault, hymnThreadSingle,
             hymnThreadFunneled, hymnThreadSerialized, hymnThreadMultiple);
  EXPECT_ALL(of->times, (long long)HYMN_TIMEOUT_DEFAULT, (long long)HYMN_TIMEOUT_NONE);
  EXPECT_ALL(of->ops, hymnSum, hymnProd, hymnMin, hymnMax, hymnBand, hymnBor, hymnBxor, hymnAvg,
             hymnLand, hymnLor, hymnLxor);
  return 0;
}

int compare_value_type(int dtype, int bytes);
int compare_value_type(int dtype, int bytes) { return dtype == (int)HYMN_VALUE(bytes); }
