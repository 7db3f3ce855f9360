// The C API: meshes.
#include "hymn/hymn_mesh.h"
#include "hymn/mesh.hpp"
#include "runtime/c_api/c_api.hpp"

struct hymnMesh {
  hymn::Mesh mesh;
};

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace
using hymn::Mesh;

namespace {

std::vector<std::string> names_of(const char* const* names, std::size_t n) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < n; ++i) all.emplace_back(need(names[i], "a name"));
  return all;
}

/// Gives what `make()` returns to the caller.
template <class Make>
hymnResult_t make_mesh(const char* function, hymnMesh_t* mesh, const char* name, Make&& make) {
  return guarded(function, [&] {
    *need(mesh, name) = nullptr;
    *mesh = new hymnMesh{make()};
  });
}

template <class T, class Get>
hymnResult_t query_mesh(const char* function, hymnMesh_t mesh, T* result, const char* name,
                        Get&& get) {
  return guarded(function, [&] { *need(result, name) = get(need(mesh, "mesh")->mesh); });
}

template <class Find>
hymnResult_t find_group(const char* function, hymnGroup_t* group, Find&& find) {
  return guarded(function, [&] {
    *need(group, "group") = nullptr;
    auto handle = std::make_unique<hymnGroup>();
    handle->group = find();
    handle->is_shared = true;
    *group = handle.release();
  });
}

std::vector<hymn::Halo> halos_of(const hymnHalo_t* halos, std::size_t n) {
  if (n > 0) need(halos, "halos");
  std::vector<hymn::Halo> all;
  for (const hymnHalo_t& halo : std::span(halos, n)) {
    const auto sent = [&](int side) {
      return input(halo.send[side], halo.sendcounts[side], halo.dtype);
    };
    const auto taken = [&](int side) {
      return output(halo.recv[side], halo.recvcounts[side], halo.dtype);
    };
    all.push_back({halo.dimension, sent(0), taken(0), sent(1), taken(1), halo.periodic != 0});
  }
  return all;
}

}  // namespace

hymnResult_t hymnMeshCreate(hymnWorld_t world, const size_t* shape, const char* const* names,
                            size_t dimensions, const int* ranks, size_t n, hymnMesh_t* mesh) {
  return make_mesh(__func__, mesh, "mesh", [&] {
    hymn::World& of = *need(world, "world")->world;
    const std::span sizes(need(shape, "shape"), dimensions);
    if (n == 0 && ranks != nullptr)
      throw hymn::UsageError("the list of a mesh's ranks is empty: all ranks are NULL and 0");
    const std::span list(n == 0 ? ranks : need(ranks, "ranks"), n);
    return Mesh(of, {sizes.begin(), sizes.end()},
                names_of(names, names == nullptr ? 0 : dimensions), {list.begin(), list.end()});
  });
}

hymnResult_t hymnMeshSubMesh(hymnMesh_t mesh, const char* const* names, size_t n,
                             hymnMesh_t* part) {
  return make_mesh(__func__, part, "part", [&] {
    return need(mesh, "mesh")->mesh.sub_mesh(names_of(n == 0 ? names : need(names, "names"), n));
  });
}

hymnResult_t hymnMeshFree(hymnMesh_t mesh) {
  return guarded(__func__, [&] { delete need(mesh, "mesh"); });
}

hymnResult_t hymnMeshDimensions(hymnMesh_t mesh, size_t* dimensions) {
  return query_mesh(__func__, mesh, dimensions, "dimensions",
                    [](const Mesh& of) { return of.shape().size(); });
}

hymnResult_t hymnMeshDimension(hymnMesh_t mesh, const char* name, size_t* dimension) {
  return query_mesh(__func__, mesh, dimension, "dimension",
                    [=](const Mesh& of) { return of.dimension(need(name, "name")); });
}

hymnResult_t hymnMeshSize(hymnMesh_t mesh, size_t dimension, size_t* size) {
  return query_mesh(__func__, mesh, size, "size", [=](const Mesh& of) {
    (void)of.rank(dimension);  // throws where there is no such dimension
    return of.shape()[dimension];
  });
}

hymnResult_t hymnMeshName(hymnMesh_t mesh, size_t dimension, const char** name) {
  return query_mesh(__func__, mesh, name, "name", [=](const Mesh& of) {
    (void)of.rank(dimension);  // as above
    return of.names().empty() ? "" : of.names()[dimension].c_str();
  });
}

hymnResult_t hymnMeshRanks(hymnMesh_t mesh, const int** ranks, size_t* n) {
  return guarded(__func__, [&] {
    const Mesh& of = need(mesh, "mesh")->mesh;
    *need(n, "n") = of.ranks().size();
    *need(ranks, "ranks") = of.ranks().data();
  });
}

hymnResult_t hymnMeshRank(hymnMesh_t mesh, size_t dimension, int* rank) {
  return query_mesh(__func__, mesh, rank, "rank",
                    [=](const Mesh& of) { return of.rank(dimension); });
}

hymnResult_t hymnMeshGroup(hymnMesh_t mesh, size_t dimension, hymnGroup_t* group) {
  return find_group(__func__, group, [=] { return need(mesh, "mesh")->mesh.group(dimension); });
}

hymnResult_t hymnMeshHaloGroup(hymnMesh_t mesh, hymnGroup_t* group) {
  return find_group(__func__, group, [=] { return need(mesh, "mesh")->mesh.halo_group(); });
}

hymnResult_t hymnMeshNeighbour(hymnMesh_t mesh, size_t dimension, int distance, int periodic,
                               int* rank) {
  return query_mesh(__func__, mesh, rank, "rank", [=](const Mesh& of) {
    return of.neighbour(dimension, distance, periodic != 0).value_or(HYMN_NO_RANK);
  });
}

hymnResult_t hymnMeshExchangeHalos(hymnMesh_t mesh, const hymnHalo_t* halos, size_t n,
                                   hymnStream_t stream) {
  return guarded(__func__, [&] {
    need(mesh, "mesh")->mesh.exchange_halos(halos_of(halos, n), {.stream = stream});
  });
}

hymnResult_t hymnMeshIExchangeHalos(hymnMesh_t mesh, const hymnHalo_t* halos, size_t n,
                                    hymnStream_t stream, hymnWork_t* work) {
  return guarded(__func__, [&] {
    *need(work, "work") = nullptr;
    const std::vector<hymn::Halo> all = halos_of(halos, n);
    auto handle = std::make_unique<hymnWork>();  // first: a started operation must not get lost
    handle->work = need(mesh, "mesh")->mesh.exchange_halos_async(all, {.stream = stream});
    *work = handle.release();
  });
}
