// Which MPI a library is, by what it says of itself (MPI_Get_library_version).
#pragma once

#include <string_view>

namespace hymn {

/// MPIs of one flavour have the same handles and constants, and find their ranks in the same ways.
enum class MpiFlavour : unsigned char { open_mpi, mpich, other };

/// Intel MPI and MVAPICH are made of MPICH, and keep its binary interface; Cray's name has
/// MPICH's in it.
constexpr MpiFlavour flavour_of(std::string_view library) {
  const auto names = [library](const char* name) {
    return library.find(name) != std::string_view::npos;
  };
  if (names("Open MPI")) return MpiFlavour::open_mpi;
  for (const char* relative : {"MPICH", "Intel(R) MPI", "MVAPICH"})
    if (names(relative)) return MpiFlavour::mpich;
  return MpiFlavour::other;
}

}  // namespace hymn
