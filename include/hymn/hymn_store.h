// hymn's C API: key-value stores, through which processes find each other before they have anything
// better. docs/store.md tells which store is for what, and its limits.
//
// Keys are text. All calls may be made from any thread. Errors of all: hymnUsageError for a key or
// value that is too large, hymnStoreError and hymnNetworkError where the store itself fails.
// `seconds` is how long a call may wait: HYMN_TIMEOUT_DEFAULT as the store's own timeout, negative
// for ever. When it passes: hymnStoreError, whose text names the missing keys.
#pragma once

#include "hymn/hymn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hymnStore* hymnStore_t;

/// In the memory of this process, for its threads.
HYMN_API hymnResult_t hymnStoreCreateHash(hymnStore_t* store);
/// In a file that all processes see; it is made if it is not there. `users`: how many stores of
/// this path there will be in all; the last of them to be freed removes the file. 0: it stays.
HYMN_API hymnResult_t hymnStoreCreateFile(const char* path, int users, hymnStore_t* store);
/// In the memory of one process, the server (is_server not 0), for all that reach it over TCP.
/// `host`: the server's name or address; `port`: 0 lets a server choose. `token`: of
/// hymnStoreMakeToken, the same for all; NULL: nobody has to prove anything, which is allowed on
/// the loopback only. `seconds`: to find the server, and then the store's timeout.
HYMN_API hymnResult_t hymnStoreCreateTcp(const char* host, int port, int is_server,
                                         const char* token, double seconds, hymnStore_t* store);
/// Another store with "prefix/" before every key; it may be freed before this one.
HYMN_API hymnResult_t hymnStoreCreatePrefix(const char* prefix, hymnStore_t of, hymnStore_t* store);

/// Where a store's function puts a value that it returns.
typedef struct hymnStoreValue hymnStoreValue_t;
/// Copies the value there. hymnResourceError where memory runs out.
HYMN_API hymnResult_t hymnStoreValuePut(hymnStoreValue_t* value, const void* data, size_t bytes);

/// A store of the program's own. The functions may be called from any thread, several at a time,
/// and do what the calls below that have their names do; none of them waits, but for `wait`. What
/// returns anything but hymnSuccess ends the call with hymnStoreError, whose text names the
/// function, the code and the key.
typedef struct {
  size_t size;    ///< sizeof(hymnStoreFunctions_t)
  void* context;  ///< the first argument of all
  hymnResult_t (*set)(void* context, const char* key, const void* value, size_t bytes);
  /// Puts nothing where the key is not there.
  hymnResult_t (*get)(void* context, const char* key, hymnStoreValue_t* value);
  hymnResult_t (*add)(void* context, const char* key, int64_t delta, int64_t* sum);
  /// Puts what is there afterwards, or nothing.
  hymnResult_t (*compare_set)(void* context, const char* key, const void* expected,
                              size_t expected_bytes, const void* desired, size_t desired_bytes,
                              hymnStoreValue_t* value);
  hymnResult_t (*delete_key)(void* context, const char* key, int* was_there);
  hymnResult_t (*check)(void* context, const char* const* keys, size_t n, int* are_there);
  /// NULL: hymn asks `check` again and again. For at most `seconds`, negative for ever; *are_there
  /// is 0 when they have passed.
  hymnResult_t (*wait)(void* context, const char* const* keys, size_t n, double seconds,
                       int* are_there);
  /// NULL: hymnStoreNumKeys is refused (hymnUnsupportedError).
  hymnResult_t (*num_keys)(void* context, int64_t* keys);
  void (*free)(void* context);  ///< when nothing uses the store any more; NULL: nothing to do
} hymnStoreFunctions_t;
#define HYMN_STORE_FUNCTIONS_INIT \
  {sizeof(hymnStoreFunctions_t), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL}
/// `functions` is copied. Where the call fails `free` is not called.
HYMN_API hymnResult_t hymnStoreCreateFrom(const hymnStoreFunctions_t* functions,
                                          hymnStore_t* store);

/// The world's own store, with the world's timeout. All ranks call it, and the first calls wait for
/// each other: World::store().
HYMN_API hymnResult_t hymnWorldStore(hymnWorld_t world, hymnStore_t* store);
/// Frees the handle; what other handles and exchanges use of it stays.
HYMN_API hymnResult_t hymnStoreFree(hymnStore_t store);

/// A world of processes that have nothing but a store, each with the same contents. It is for
/// finding each other, not for speed. Two worlds over one store need prefixes of their own.
HYMN_API hymnResult_t hymnInitFromStore(hymnWorld_t* world, hymnStore_t store, int rank, int size,
                                        const hymnWorldOptions_t* options);

/// A world of the processes that a launcher has started, by the variables that it has set, without
/// MPI: as hymn::exchange_from_environment() (hymn/rendezvous.hpp) tells. How long they are waited
/// for: init_timeout_seconds, HYMN_INIT_TIMEOUT, timeout_seconds, HYMN_TIMEOUT. hymnConfigError
/// where they are missing or malformed.
HYMN_API hymnResult_t hymnInitFromEnvironment(hymnWorld_t* world,
                                              const hymnWorldOptions_t* options);

/// A new secret for one job: 64 hexadecimal digits and a 0 at their end.
HYMN_API hymnResult_t hymnStoreMakeToken(char token[65]);
/// Where a TCP store's server listens; hymnUsageError of any other store.
HYMN_API hymnResult_t hymnStoreTcpPort(hymnStore_t store, int* port);

HYMN_API hymnResult_t hymnStoreSet(hymnStore_t store, const char* key, const void* value,
                                   size_t bytes);
/// Waits until the key is there. *bytes is the size of its value, of which up to `capacity` bytes
/// go to `value`.
HYMN_API hymnResult_t hymnStoreGet(hymnStore_t store, const char* key, double seconds, void* value,
                                   size_t capacity, size_t* bytes);
/// Adds to a number, 0 where there is none, which is kept in decimal digits. hymnStoreError where
/// the key holds anything else, or the sum does not fit 64 bits.
HYMN_API hymnResult_t hymnStoreAdd(hymnStore_t store, const char* key, int64_t delta, int64_t* sum);
/// Sets the key to `desired` if its value is `expected`; or, when that has no bytes, if it is not
/// there. What is there afterwards comes as from hymnStoreGet, with no bytes where nothing is.
HYMN_API hymnResult_t hymnStoreCompareSet(hymnStore_t store, const char* key, const void* expected,
                                          size_t expected_bytes, const void* desired,
                                          size_t desired_bytes, void* value, size_t capacity,
                                          size_t* bytes);
/// *was_there: 1 or 0; may be NULL.
HYMN_API hymnResult_t hymnStoreDelete(hymnStore_t store, const char* key, int* was_there);
/// Whether all are there now: 1 or 0.
HYMN_API hymnResult_t hymnStoreCheck(hymnStore_t store, const char* const* keys, size_t n,
                                     int* are_there);
/// Until all are there, at the same time.
HYMN_API hymnResult_t hymnStoreWait(hymnStore_t store, const char* const* keys, size_t n,
                                    double seconds);
/// Of the whole store, also through a prefix.
HYMN_API hymnResult_t hymnStoreNumKeys(hymnStore_t store, int64_t* keys);
/// 300 s at first. hymnUsageError for HYMN_TIMEOUT_DEFAULT.
HYMN_API hymnResult_t hymnStoreSetTimeout(hymnStore_t store, double seconds);
/// HYMN_TIMEOUT_NONE where there is none.
HYMN_API hymnResult_t hymnStoreGetTimeout(hymnStore_t store, double* seconds);

#ifdef __cplusplus
}
#endif
