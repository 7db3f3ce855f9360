// The calls of MPI that the preload stands before, by name.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "preload/mpi.hpp"

namespace hymn::preload {

/// What is done with a call: see calls.inc.
enum class Kind : std::uint8_t { carried, left, message, completion, poll, other };

enum class Call : std::uint8_t {
#define HYMN_CALL(kind, name, parameters, facts, ...) name,
#include "preload/calls.inc"
#undef HYMN_CALL
};

inline constexpr std::string_view call_names[] = {
#define HYMN_CALL(kind, name, parameters, facts, ...) "MPI_" #name,
#include "preload/calls.inc"
#undef HYMN_CALL
};
inline constexpr std::size_t call_count = std::size(call_names);

inline constexpr Kind call_kinds[call_count] = {
#define HYMN_CALL(kind, name, parameters, facts, ...) Kind::kind,
#include "preload/calls.inc"
#undef HYMN_CALL
};

constexpr std::size_t index_of(Call call) { return static_cast<std::size_t>(call); }
constexpr std::string_view name_of(Call call) { return call_names[index_of(call)]; }
constexpr Kind kind_of(Call call) { return call_kinds[index_of(call)]; }

/// Where the calls go that the preload does not answer: to whoever is behind it, a tool or MPI.
struct Next {
#define HYMN_CALL(kind, name, parameters, facts, ...) int(*name) parameters = nullptr;
#include "preload/calls.inc"
#undef HYMN_CALL
  int (*Init)(int*, char***) = nullptr;
  int (*Init_thread)(int*, char***, int, int*) = nullptr;
  int (*Finalize)() = nullptr;
};

// Looked up at the first call; null before.
extern std::atomic<const Next*> known_pmpi;
extern std::atomic<const Next*> known_mpi;
const Next& find_pmpi();
const Next& find_mpi();

/// Behind PMPI_X, by which tools and MPI's own layers call MPI.
inline const Next& next_pmpi() {
  const Next* const known = known_pmpi.load(std::memory_order_acquire);
  return known != nullptr ? *known : find_pmpi();
}
/// Behind MPI_X; where no tool is there it is the same.
inline const Next& next_mpi() {
  const Next* const known = known_mpi.load(std::memory_order_acquire);
  return known != nullptr ? *known : find_mpi();
}

}  // namespace hymn::preload
