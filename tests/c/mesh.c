// Meshes, from C.
#include "hymn/hymn_mesh.h"

#include "tests/c/check.h"

static const char* const names[] = {"dp", "tp"};

// Rows of two ranks each; what this rank has there.
static void check_groups(hymnMesh_t mesh, int rank, size_t rows) {
  for (size_t dimension = 0; dimension < 2; ++dimension) {
    hymnGroup_t group = NULL;
    int place = -1, group_rank = -1, size = 0, sum = 1, expected = dimension == 0 ? (int)rows : 2;
    CHECK_OK(hymnMeshRank(mesh, dimension, &place));
    CHECK(place == (dimension == 0 ? rank / 2 : rank % 2));
    CHECK_OK(hymnMeshGroup(mesh, dimension, &group));
    CHECK_OK(hymnGroupRank(group, &group_rank));
    CHECK_OK(hymnGroupSize(group, &size));
    CHECK(group_rank == place);
    CHECK(size == expected);
    CHECK_OK(hymnAllReduce(&sum, &sum, 1, hymnInt32, hymnSum, group, NULL));
    CHECK(sum == expected);
    CHECK_OK(hymnGroupFree(group));  // the handle
  }
}

static void check_part(hymnMesh_t mesh, int rank) {
  hymnMesh_t part = NULL;
  const int* ranks = NULL;
  const char* name = NULL;
  size_t n = 0, dimension = 7;
  int place = -1;
  hymnGroup_t of_part = NULL, of_mesh = NULL;
  CHECK_OK(hymnMeshSubMesh(mesh, names + 1, 1, &part));
  CHECK_OK(hymnMeshDimensions(part, &dimension));
  CHECK(dimension == 1);
  CHECK_OK(hymnMeshDimension(part, "tp", &dimension));
  CHECK(dimension == 0);
  CHECK_OK(hymnMeshName(part, 0, &name));
  CHECK(strcmp(name, "tp") == 0);
  CHECK_OK(hymnMeshRanks(part, &ranks, &n));
  CHECK(n == 2 && ranks[0] == rank / 2 * 2 && ranks[1] == ranks[0] + 1);
  CHECK_OK(hymnMeshRank(part, 0, &place));
  CHECK(place == rank % 2);
  // The groups of a part are those of the whole.
  const char *tag = NULL, *same = NULL;
  CHECK_OK(hymnMeshGroup(part, 0, &of_part));
  CHECK_OK(hymnMeshGroup(mesh, 1, &of_mesh));
  CHECK_OK(hymnGroupTag(of_part, &tag));
  CHECK_OK(hymnGroupTag(of_mesh, &same));
  CHECK(strcmp(tag, same) == 0);
  CHECK_OK(hymnGroupFree(of_part));
  CHECK_OK(hymnGroupFree(of_mesh));
  CHECK_OK(hymnMeshFree(part));
}

static void check_errors(hymnWorld_t world, size_t size) {
  hymnMesh_t mesh = NULL;
  hymnGroup_t group = NULL;
  size_t shape[] = {size, 1}, out = 0;
  const int one = 0;
  const char* const twice[] = {"a", "a"};
  CHECK_FAILS(hymnUsageError, "different", hymnMeshCreate(world, shape, twice, 2, NULL, 0, &mesh));
  CHECK(mesh == NULL);
  CHECK_FAILS(hymnUsageError, "shape is NULL",
              hymnMeshCreate(world, NULL, NULL, 2, NULL, 0, &mesh));
  CHECK_FAILS(hymnUsageError, "ranks is NULL",
              hymnMeshCreate(world, shape, NULL, 2, NULL, size, &mesh));
  shape[0] = size + 1;
  CHECK_FAILS(hymnUsageError, "do not make a mesh",
              hymnMeshCreate(world, shape, NULL, 2, &one, 1, &mesh));
  CHECK_FAILS(hymnUsageError, "empty", hymnMeshCreate(world, shape, NULL, 2, &one, 0, &mesh));
  shape[0] = size;
  CHECK_OK(hymnMeshCreate(world, shape, NULL, 2, NULL, 0, &mesh));
  const char* name = NULL;
  CHECK_OK(hymnMeshName(mesh, 1, &name));
  CHECK(strcmp(name, "") == 0);
  CHECK_FAILS(hymnUsageError, "dimension 2", hymnMeshSize(mesh, 2, &out));
  CHECK_FAILS(hymnUsageError, "no dimension 'dp'", hymnMeshDimension(mesh, "dp", &out));
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnMeshGroup(mesh, 0, NULL));
  CHECK_FAILS(hymnUsageError, "dimension 2", hymnMeshGroup(mesh, 2, &group));
  CHECK_OK(hymnMeshFree(mesh));
  CHECK_FAILS(hymnUsageError, "mesh is NULL", hymnMeshFree(NULL));
}

// A ring of all ranks, whose first and last are neighbours; and the same with edges.
static void check_halos(hymnWorld_t world, int rank, int size) {
  const size_t shape[] = {(size_t)size};
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const int32_t faces[3] = {10 * rank, 10 * rank + 1, 10 * rank + 2};
  int32_t from_before[2] = {-1, -1}, from_next[1] = {-1};
  hymnMesh_t mesh = NULL;
  hymnWork_t work = NULL;
  int at = -2;
  hymnHalo_t halo = {0, {faces, faces + 1}, {1, 2}, {from_before, from_next}, {2, 1}, hymnInt32, 1};
  CHECK_OK(hymnMeshCreate(world, shape, NULL, 1, NULL, 0, &mesh));
  CHECK_OK(hymnMeshNeighbour(mesh, 0, 1, 1, &at));
  CHECK(at == next);
  CHECK_OK(hymnMeshNeighbour(mesh, 0, size, 0, &at));
  CHECK(at == HYMN_NO_RANK);
  CHECK_OK(hymnMeshExchangeHalos(mesh, &halo, 1, NULL));
  CHECK(from_before[0] == 10 * before + 1 && from_before[1] == 10 * before + 2);
  CHECK(from_next[0] == 10 * next);
  from_before[0] = from_next[0] = -1;
  halo.periodic = 0;
  CHECK_OK(hymnMeshIExchangeHalos(mesh, &halo, 1, NULL, &work));
  CHECK_OK(hymnWorkWait(work));
  CHECK_OK(hymnWorkFree(work));
  CHECK(from_before[0] == (rank == 0 ? -1 : 10 * before + 1));
  CHECK(from_next[0] == (rank == size - 1 ? -1 : 10 * next));
  halo.dimension = 1;
  CHECK_FAILS(hymnUsageError, "dimension 1", hymnMeshExchangeHalos(mesh, &halo, 1, NULL));
  hymnGroup_t group = NULL;
  int members = 0;
  CHECK_OK(hymnMeshHaloGroup(mesh, &group));
  CHECK_OK(hymnGroupSize(group, &members));
  CHECK(members == size);
  CHECK_OK(hymnGroupFree(group));
  CHECK_FAILS(hymnUsageError, "group is NULL", hymnMeshHaloGroup(mesh, NULL));
  CHECK_FAILS(hymnUsageError, "halos is NULL", hymnMeshExchangeHalos(mesh, NULL, 1, NULL));
  CHECK_OK(hymnMeshFree(mesh));
}

void test_mesh(hymnWorld_t world) {
  int rank = -1, size = -1, place = 7;
  CHECK_OK(hymnWorldRank(world, &rank));
  CHECK_OK(hymnWorldSize(world, &size));
  check_errors(world, (size_t)size);
  check_halos(world, rank, size);
  const size_t shape[] = {(size_t)size / 2, 2};
  if (shape[0] == 0) return;
  int ranks[64];
  for (int i = 0; i < size; ++i) ranks[i] = i;
  hymnMesh_t mesh = NULL;
  hymnGroup_t group = NULL;
  CHECK_OK(hymnMeshCreate(world, shape, names, 2, ranks, 2 * shape[0], &mesh));
  size_t rows = 0;
  CHECK_OK(hymnMeshSize(mesh, 0, &rows));
  CHECK(rows == shape[0]);
  if (rank < (int)(2 * rows)) {
    check_groups(mesh, rank, rows);
    check_part(mesh, rank);
  } else {
    CHECK_OK(hymnMeshRank(mesh, 0, &place));
    CHECK(place == -1);
    CHECK_FAILS(hymnUsageError, "not part of the mesh", hymnMeshGroup(mesh, 0, &group));
  }
  CHECK_OK(hymnMeshFree(mesh));
}
