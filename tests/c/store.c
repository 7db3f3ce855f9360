// Stores, from C.
#include "hymn/hymn_store.h"

#include <unistd.h>

#include "tests/c/check.h"

static const char* const both[] = {"a", "b"};

// What all stores do alike; it holds nothing before.
static void check_calls(hymnStore_t store) {
  char value[8] = "";
  size_t bytes = 0;
  int64_t number = 0;
  int there = 7;
  CHECK_OK(hymnStoreSet(store, "a", "one", 3));
  CHECK_OK(hymnStoreGet(store, "a", HYMN_TIMEOUT_DEFAULT, value, sizeof value, &bytes));
  CHECK(bytes == 3 && memcmp(value, "one", 3) == 0);
  value[1] = 'x';
  CHECK_OK(hymnStoreGet(store, "a", 1, value, 1, &bytes));  // as much as there is room for
  CHECK(bytes == 3 && value[0] == 'o' && value[1] == 'x');
  CHECK_OK(hymnStoreGet(store, "a", HYMN_TIMEOUT_NONE, NULL, 0, &bytes));
  CHECK(bytes == 3);

  CHECK_OK(hymnStoreAdd(store, "n", 40, &number));
  CHECK_OK(hymnStoreAdd(store, "n", 2, &number));
  CHECK(number == 42);
  CHECK_FAILS(hymnUsageError, "sum is NULL", hymnStoreAdd(store, "n", 1, NULL));
  CHECK_OK(hymnStoreAdd(store, "n", 0, &number));
  CHECK(number == 42);
  CHECK_FAILS(hymnStoreError, "a'", hymnStoreAdd(store, "a", 1, &number));

  CHECK_OK(hymnStoreCheck(store, both, 2, &there));
  CHECK(there == 0);
  CHECK_FAILS(hymnStoreError, "'b'", hymnStoreWait(store, both, 2, 0.01));
  CHECK(strstr(hymnGetLastError(), "'a'") == NULL);
  CHECK_FAILS(hymnStoreError, "'b', which nobody has set",
              hymnStoreGet(store, "b", 0.01, value, sizeof value, &bytes));
  CHECK_OK(hymnStoreSetTimeout(store, 0.02));
  CHECK_FAILS(hymnStoreError, "waited 0.020 s",
              hymnStoreWait(store, both, 2, HYMN_TIMEOUT_DEFAULT));
  CHECK_OK(hymnStoreSetTimeout(store, 300));

  CHECK_OK(hymnStoreCompareSet(store, "b", NULL, 0, "new", 3, value, sizeof value, &bytes));
  CHECK(bytes == 3 && memcmp(value, "new", 3) == 0);
  CHECK_OK(hymnStoreCompareSet(store, "b", "other", 5, "no", 2, value, sizeof value, &bytes));
  CHECK(bytes == 3 && memcmp(value, "new", 3) == 0);
  CHECK_OK(hymnStoreCompareSet(store, "b", "new", 3, "yes", 3, value, sizeof value, &bytes));
  CHECK(bytes == 3 && memcmp(value, "yes", 3) == 0);
  CHECK_OK(hymnStoreWait(store, both, 2, 0));
  CHECK_OK(hymnStoreNumKeys(store, &number));
  CHECK(number == 3);

  CHECK_OK(hymnStoreDelete(store, "a", &there));
  CHECK(there == 1);
  CHECK_OK(hymnStoreDelete(store, "a", &there));
  CHECK(there == 0);
  CHECK_OK(hymnStoreDelete(store, "b", NULL));
  CHECK_OK(hymnStoreDelete(store, "n", NULL));
}

static void check_prefix(hymnStore_t store) {
  hymnStore_t part = NULL;
  char value[4] = "";
  size_t bytes = 0;
  CHECK_OK(hymnStoreCreatePrefix("part", store, &part));
  CHECK_OK(hymnStoreSet(part, "key", "v", 1));
  CHECK_OK(hymnStoreGet(store, "part/key", 0.01, value, sizeof value, &bytes));
  CHECK(bytes == 1 && value[0] == 'v');
  CHECK_OK(hymnStoreDelete(part, "key", NULL));
  check_calls(part);
  CHECK_OK(hymnStoreFree(part));
}

static void check_file(void) {
  char path[64] = "";
  hymnStore_t store = NULL, other = NULL;
  char value = 0;
  size_t bytes = 0;
  snprintf(path, sizeof path, "/tmp/hymn_store_c_%d_%p", (int)getpid(), (void*)&store);
  CHECK_OK(hymnStoreCreateFile(path, 2, &store));
  CHECK_OK(hymnStoreCreateFile(path, 2, &other));
  check_calls(store);
  CHECK_OK(hymnStoreSet(store, "key", "v", 1));
  CHECK_OK(hymnStoreGet(other, "key", 0.01, &value, 1, &bytes));
  CHECK(value == 'v');
  CHECK_OK(hymnStoreFree(store));
  CHECK_OK(hymnStoreFree(other));
  CHECK(access(path, F_OK) != 0);  // the last one has removed it
}

static void check_tcp(void) {
  char token[65];
  int port = 0, same = 0;
  hymnStore_t server = NULL, client = NULL;
  CHECK_OK(hymnStoreMakeToken(token));
  CHECK(strlen(token) == 64);
  CHECK_OK(hymnStoreCreateTcp("127.0.0.1", 0, 1, token, HYMN_TIMEOUT_DEFAULT, &server));
  CHECK_OK(hymnStoreTcpPort(server, &port));
  CHECK(port > 0);
  CHECK_OK(hymnStoreCreateTcp("127.0.0.1", port, 0, token, 30, &client));
  CHECK_OK(hymnStoreTcpPort(client, &same));
  CHECK(same == port);
  check_calls(client);
  double seconds = 0;
  CHECK_OK(hymnStoreGetTimeout(server, &seconds));
  CHECK(seconds == 300);
  CHECK_OK(hymnStoreFree(client));
  CHECK_OK(hymnStoreFree(server));
}

// Values go from each rank to the next; each call of the world's store gives the same one.
static void check_of_world(hymnWorld_t world) {
  hymnStore_t store = NULL, again = NULL;
  int rank = -1, size = 0;
  char key[16] = "";
  int value = -1;
  size_t bytes = 0;
  double seconds = 0;
  hymnGroup_t group = NULL;
  CHECK_OK(hymnWorldRank(world, &rank));
  CHECK_OK(hymnWorldSize(world, &size));
  CHECK_OK(hymnWorldGroup(world, &group));
  CHECK_OK(hymnWorldStore(world, &store));
  CHECK_OK(hymnWorldStore(world, &again));
  CHECK_OK(hymnStoreGetTimeout(store, &seconds));
  CHECK(seconds > 0);
  snprintf(key, sizeof key, "rank%d", (rank + 1) % size);
  CHECK_OK(hymnStoreSet(store, key, &rank, sizeof rank));
  snprintf(key, sizeof key, "rank%d", rank);
  CHECK_OK(hymnStoreGet(again, key, HYMN_TIMEOUT_DEFAULT, &value, sizeof value, &bytes));
  CHECK(bytes == sizeof value && value == (rank + size - 1) % size);
  CHECK_OK(hymnBarrier(group, NULL));
  CHECK_OK(hymnStoreFree(store));
  CHECK_OK(hymnStoreFree(again));
}

// A store of functions whose values are in another one; it fails where the context says so.
struct own_store {
  hymnStore_t of;
  const char* fails;  // the function that does
  int freed;
};

static int fails(const struct own_store* own, const char* function) {
  return own->fails != NULL && strcmp(own->fails, function) == 0;
}
static hymnResult_t own_set(void* context, const char* key, const void* value, size_t bytes) {
  struct own_store* own = context;
  return fails(own, "set") ? hymnNetworkError : hymnStoreSet(own->of, key, value, bytes);
}
static hymnResult_t own_get(void* context, const char* key, hymnStoreValue_t* value) {
  struct own_store* own = context;
  char data[64];
  size_t bytes = 0;
  int there = 0;
  if (fails(own, "get")) return hymnNetworkError;
  CHECK_OK(hymnStoreCheck(own->of, &key, 1, &there));
  if (!there) return hymnSuccess;
  CHECK_OK(hymnStoreGet(own->of, key, 1, data, sizeof data, &bytes));
  return hymnStoreValuePut(value, data, bytes);
}
static hymnResult_t own_add(void* context, const char* key, int64_t delta, int64_t* sum) {
  return hymnStoreAdd(((struct own_store*)context)->of, key, delta, sum);
}
static hymnResult_t own_compare_set(void* context, const char* key, const void* expected,
                                    size_t expected_bytes, const void* desired,
                                    size_t desired_bytes, hymnStoreValue_t* value) {
  char data[64];
  size_t bytes = 0;
  const hymnResult_t result =
      hymnStoreCompareSet(((struct own_store*)context)->of, key, expected, expected_bytes, desired,
                          desired_bytes, data, sizeof data, &bytes);
  return result == hymnSuccess ? hymnStoreValuePut(value, data, bytes) : result;
}
static hymnResult_t own_delete(void* context, const char* key, int* was_there) {
  return hymnStoreDelete(((struct own_store*)context)->of, key, was_there);
}
static hymnResult_t own_check(void* context, const char* const* keys, size_t n, int* are_there) {
  struct own_store* own = context;
  return fails(own, "check") ? hymnPeerError : hymnStoreCheck(own->of, keys, n, are_there);
}
static hymnResult_t own_wait(void* context, const char* const* keys, size_t n, double seconds,
                             int* are_there) {
  const hymnResult_t result =
      hymnStoreWait(((struct own_store*)context)->of, keys, n, seconds == 0 ? 0.001 : seconds);
  *are_there = result == hymnSuccess;
  return result == hymnStoreError ? hymnSuccess : result;
}
static hymnResult_t own_num_keys(void* context, int64_t* keys) {
  return hymnStoreNumKeys(((struct own_store*)context)->of, keys);
}
static void own_free(void* context) { ((struct own_store*)context)->freed += 1; }

static void check_own(void) {
  struct own_store own = {NULL, NULL, 0};
  hymnStore_t store = NULL;
  hymnWorld_t world = NULL;
  int64_t number = 0;
  size_t bytes = 0;
  hymnStoreFunctions_t functions = HYMN_STORE_FUNCTIONS_INIT;
  functions.context = &own;
  functions.set = own_set;
  functions.get = own_get;
  functions.add = own_add;
  functions.compare_set = own_compare_set;
  functions.delete_key = own_delete;
  functions.check = own_check;
  functions.wait = own_wait;
  functions.num_keys = own_num_keys;
  functions.free = own_free;
  CHECK_OK(hymnStoreCreateHash(&own.of));
  CHECK_OK(hymnStoreCreateFrom(&functions, &store));
  check_calls(store);
  check_prefix(store);
  CHECK_OK(hymnStoreFree(store));
  CHECK(own.freed == 1);

  functions.wait = NULL;  // then check is asked
  functions.num_keys = NULL;
  CHECK_OK(hymnStoreCreateFrom(&functions, &store));
  CHECK_FAILS(hymnUnsupportedError, "num_keys", hymnStoreNumKeys(store, &number));
  CHECK_OK(hymnStoreSet(store, "a", "", 0));
  CHECK_OK(hymnStoreGet(store, "a", 1, NULL, 0, &bytes));
  CHECK(bytes == 0);
  CHECK_FAILS(hymnStoreError, "'b'", hymnStoreWait(store, both, 2, 0.01));
  CHECK(strstr(hymnGetLastError(), "'a'") == NULL);
  CHECK_FAILS(hymnStoreError, "'b', which nobody has set",
              hymnStoreGet(store, "b", 0.01, NULL, 0, &bytes));
  own.fails = "set";
  CHECK_FAILS(hymnStoreError, "function set of the program's store has failed for key 'a'",
              hymnStoreSet(store, "a", "", 0));
  CHECK(strstr(hymnGetLastError(), hymnGetErrorString(hymnNetworkError)) != NULL);
  own.fails = "get";
  CHECK_FAILS(hymnStoreError, "function get of", hymnStoreGet(store, "a", 1, NULL, 0, &bytes));
  own.fails = "check";
  CHECK_FAILS(hymnStoreError, "function check of", hymnStoreWait(store, both, 2, 1));
  CHECK_OK(hymnStoreFree(store));
  CHECK(own.freed == 2);

  own.fails = NULL;
  CHECK_OK(hymnStoreCreateFrom(&functions, &store));
  CHECK_OK(hymnInitFromStore(&world, store, 0, 1, NULL));
  CHECK_OK(hymnStoreFree(store));
  CHECK_OK(hymnFinalize(world));
  CHECK(own.freed == 3);

  functions.check = NULL;
  CHECK_FAILS(hymnUsageError, "functions->check is NULL", hymnStoreCreateFrom(&functions, &store));
  functions.size = 1;
  CHECK_FAILS(hymnUsageError, "hymnStoreFunctions_t", hymnStoreCreateFrom(&functions, &store));
  CHECK_FAILS(hymnUsageError, "functions is NULL", hymnStoreCreateFrom(NULL, &store));
  CHECK(own.freed == 3);
  CHECK_OK(hymnStoreFree(own.of));
}

static void check_errors(void) {
  hymnStore_t store = NULL;
  size_t bytes = 0;
  int out = 0;
  double seconds = 0;
  CHECK_FAILS(hymnUsageError, "store is NULL", hymnStoreCreateHash(NULL));
  CHECK_FAILS(hymnUsageError, "path is NULL", hymnStoreCreateFile(NULL, 0, &store));
  CHECK_FAILS(hymnUsageError, "of is NULL", hymnStoreCreatePrefix("a", NULL, &store));
  CHECK_FAILS(hymnUsageError, "world is NULL", hymnWorldStore(NULL, &store));
  CHECK_FAILS(hymnUsageError, "store is NULL", hymnStoreFree(NULL));
  CHECK_OK(hymnStoreCreateHash(&store));
  CHECK_FAILS(hymnUsageError, "key is NULL", hymnStoreSet(store, NULL, "", 0));
  CHECK_FAILS(hymnUsageError, "value is NULL", hymnStoreSet(store, "a", NULL, 1));
  CHECK_FAILS(hymnUsageError, "bytes is NULL", hymnStoreGet(store, "a", 0.01, NULL, 0, NULL));
  CHECK_FAILS(hymnUsageError, "value is NULL", hymnStoreGet(store, "a", 0.01, NULL, 4, &bytes));
  CHECK_FAILS(hymnUsageError, "no TCP store", hymnStoreTcpPort(store, &out));
  CHECK_FAILS(hymnUsageError, "a default timeout",
              hymnStoreSetTimeout(store, HYMN_TIMEOUT_DEFAULT));
  CHECK_OK(hymnStoreSetTimeout(store, HYMN_TIMEOUT_NONE));
  CHECK_OK(hymnStoreGetTimeout(store, &seconds));
  CHECK(seconds == HYMN_TIMEOUT_NONE);
  CHECK_OK(hymnStoreFree(store));
}

// A world of one that has nothing but a store.
static void check_world_over(void) {
  hymnStore_t store = NULL;
  hymnWorld_t world = NULL;
  hymnGroup_t group = NULL;
  int value = 4;
  CHECK_OK(hymnStoreCreateHash(&store));
  CHECK_FAILS(hymnUsageError, "rank", hymnInitFromStore(&world, store, 1, 1, NULL));
  CHECK_OK(hymnInitFromStore(&world, store, 0, 1, NULL));
  CHECK_OK(hymnStoreFree(store));
  CHECK_OK(hymnWorldGroup(world, &group));
  CHECK_OK(hymnAllReduce(&value, &value, 1, hymnInt32, hymnSum, group, NULL));
  CHECK(value == 4);
  CHECK_OK(hymnFinalize(world));
}

void test_store(hymnWorld_t world) {
  hymnStore_t store = NULL;
  CHECK_OK(hymnStoreCreateHash(&store));
  check_calls(store);
  check_prefix(store);
  CHECK_OK(hymnStoreFree(store));
  check_file();
  check_tcp();
  check_own();
  check_world_over();
  check_errors();
  check_of_world(world);
}
