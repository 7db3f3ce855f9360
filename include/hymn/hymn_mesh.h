// hymn's C API for meshes: grids of ranks with a group for each dimension, as hymn::Mesh.
// docs/groups.md tells how they are made.
#pragma once

#include "hymn/hymn.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A mesh, or a part of one. Thread-safe. It may outlive its world, whose groups have ended then.
typedef struct hymnMesh* hymnMesh_t;

/// A grid of `n` ranks with `dimensions` dimensions of the sizes in `shape`, the last one running
/// fastest. `names` are as many, or NULL. `ranks` NULL with n 0: all ranks in their order. Sends
/// nothing; meshes of the same ranks and shape are made in the same order on all of these ranks.
/// hymnUsageError: the numbers do not match, a rank is given twice or out of range, a dimension has
/// no ranks, or a name is empty or given twice.
HYMN_API hymnResult_t hymnMeshCreate(hymnWorld_t world, const size_t* shape,
                                     const char* const* names, size_t dimensions, const int* ranks,
                                     size_t n, hymnMesh_t* mesh);
/// The part in which this rank is that has these dimensions, in their order in the mesh: its groups
/// are those of the mesh. Local. hymnUsageError: this rank is outside, or none has such a name.
HYMN_API hymnResult_t hymnMeshSubMesh(hymnMesh_t mesh, const char* const* names, size_t n,
                                      hymnMesh_t* part);
/// Frees the handle. The groups live on.
HYMN_API hymnResult_t hymnMeshFree(hymnMesh_t mesh);

/// How many dimensions there are; which of them has this name; and its size, and name, "" where
/// they have none. The name stays with the handle.
HYMN_API hymnResult_t hymnMeshDimensions(hymnMesh_t mesh, size_t* dimensions);
HYMN_API hymnResult_t hymnMeshDimension(hymnMesh_t mesh, const char* name, size_t* dimension);
HYMN_API hymnResult_t hymnMeshSize(hymnMesh_t mesh, size_t dimension, size_t* size);
HYMN_API hymnResult_t hymnMeshName(hymnMesh_t mesh, size_t dimension, const char** name);
/// The global ranks, which stay with the handle, the last dimension running fastest; and how many.
HYMN_API hymnResult_t hymnMeshRanks(hymnMesh_t mesh, const int** ranks, size_t* n);
/// This rank's place in that dimension; -1 outside.
HYMN_API hymnResult_t hymnMeshRank(hymnMesh_t mesh, size_t dimension, int* rank);

/// This rank's group in that dimension, which is made when all its ranks have asked for it, and
/// lives until it is destroyed or the world ends; the handle is freed by hymnGroupFree.
/// hymnUsageError outside; otherwise as hymnGroupCreate.
HYMN_API hymnResult_t hymnMeshGroup(hymnMesh_t mesh, size_t dimension, hymnGroup_t* group);

/// The rank that is `distance` places further in that dimension, as MPI_Cart_shift; HYMN_NO_RANK
/// beyond the edge of one that is not periodic. hymnUsageError outside.
HYMN_API hymnResult_t hymnMeshNeighbour(hymnMesh_t mesh, size_t dimension, int distance,
                                        int periodic, int* rank);

/// What a rank exchanges with its neighbours in one dimension: [0] is of the previous rank, [1] of
/// the next one. A face without elements is a message, too. Faces in the memory of a GPU take their
/// empty ones along; where all of a rank's faces are empty, those of its neighbours are in the
/// memory of the host, or empty.
typedef struct {
  size_t dimension;
  const void* send[2];   ///< faces
  size_t sendcounts[2];  ///< elements
  void* recv[2];         ///< halos, into which the neighbours' faces come
  size_t recvcounts[2];
  hymnDataType_t dtype;
  int periodic;  ///< not 0: the first and the last rank of the dimension are neighbours, too
} hymnHalo_t;
/// Exchanges faces with all neighbours as one batch: all ranks of the mesh give the same dimensions
/// in the same order. Beyond an edge nothing is sent, and the halo stays as it is; a rank that is
/// its own neighbour copies. The first call makes hymnMeshHaloGroup. One that fails once it has
/// started, on any rank, gives up that group. As Mesh::exchange_halos().
HYMN_API hymnResult_t hymnMeshExchangeHalos(hymnMesh_t mesh, const hymnHalo_t* halos, size_t n,
                                            hymnStream_t stream);
/// Only starts it; `halos` is copied.
HYMN_API hymnResult_t hymnMeshIExchangeHalos(hymnMesh_t mesh, const hymnHalo_t* halos, size_t n,
                                             hymnStream_t stream, hymnWork_t* work);
/// The group of all ranks of the mesh that carries the halos, made as those of the dimensions. When
/// it was given up all ranks end it (hymnGroupDestroy) before the next exchange, which makes
/// another.
HYMN_API hymnResult_t hymnMeshHaloGroup(hymnMesh_t mesh, hymnGroup_t* group);

#ifdef __cplusplus
}
#endif
