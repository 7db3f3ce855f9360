# Third-party packages, and why each is there: docs/dependencies.md.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
# C++ sources use MPI's C interface too: its own C++ bindings were withdrawn from the standard.
find_package(MPI REQUIRED COMPONENTS C)
target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
# That of Open MPI 5 is one more flag than those that precompiled headers are made with.
get_target_property(mpi_options MPI::MPI_C INTERFACE_COMPILE_OPTIONS)
if(mpi_options)
  list(FILTER mpi_options EXCLUDE REGEX "-pthread$")
  set_property(TARGET MPI::MPI_C PROPERTY INTERFACE_COMPILE_OPTIONS "${mpi_options}")
endif()
# MPICH, or one that is made of it, as Intel's: neither names nor places of libraries tell.
include(CheckSymbolExists)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
check_symbol_exists(MPICH_VERSION mpi.h HYMN_MPI_IS_MPICH)
unset(CMAKE_REQUIRED_LIBRARIES)
find_package(fmt REQUIRED)
find_package(hwy REQUIRED)
# Asio without Boost: headers alone. Its own code marks all that it defines as visible from outside,
# unless told not to; and whether it takes memory from aligned_alloc() would depend on which headers
# come before its own, so that one source may free what another has allocated otherwise.
find_path(ASIO_INCLUDE_DIR asio.hpp REQUIRED)
mark_as_advanced(ASIO_INCLUDE_DIR)
add_library(hymn_asio INTERFACE)
target_include_directories(hymn_asio SYSTEM INTERFACE "${ASIO_INCLUDE_DIR}")
target_compile_definitions(hymn_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED
                                               ASIO_DISABLE_VISIBILITY
                                               ASIO_DISABLE_STD_ALIGNED_ALLOC)
if(HYMN_PROGRAMS)
  find_package(CLI11 REQUIRED)
endif()
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc>=2.5)
pkg_check_modules(libdw REQUIRED IMPORTED_TARGET libdw)
pkg_check_modules(libsodium REQUIRED IMPORTED_TARGET libsodium)
if(HYMN_PROGRAMS)
  # Without it there are no PNGs.
  pkg_check_modules(rsvg IMPORTED_TARGET librsvg-2.0)
  if(rsvg_FOUND)
    # Its -pthread is one more flag than those that precompiled headers are made with.
    set_property(TARGET PkgConfig::rsvg PROPERTY INTERFACE_COMPILE_OPTIONS "")
  endif()
endif()
if(HYMN_TESTS STREQUAL "AUTO")
  find_package(GTest QUIET)
  if(PROJECT_IS_TOP_LEVEL AND GTest_FOUND)
    set(HYMN_TESTS ON)
  else()
    set(HYMN_TESTS OFF)
  endif()
elseif(HYMN_TESTS)
  find_package(GTest REQUIRED)
endif()
if(HYMN_TESTS)
  # What only include/hymn/objects_cereal.hpp needs.
  find_package(cereal QUIET)
endif()
# libtorch, for include/hymn/torch.hpp. (Its own package looks for all that it can be built with.)
find_path(TORCH_INCLUDE_DIR torch/csrc/autograd/engine.h)
find_library(TORCH_CPU_LIBRARY torch_cpu)
find_library(C10_LIBRARY c10)
mark_as_advanced(TORCH_INCLUDE_DIR TORCH_CPU_LIBRARY C10_LIBRARY)
if(TORCH_INCLUDE_DIR AND TORCH_CPU_LIBRARY AND C10_LIBRARY)
  add_library(hymn_libtorch INTERFACE)
  target_include_directories(hymn_libtorch SYSTEM INTERFACE
    "${TORCH_INCLUDE_DIR}" "${TORCH_INCLUDE_DIR}/torch/csrc/api/include")
  target_link_libraries(hymn_libtorch INTERFACE "${TORCH_CPU_LIBRARY}" "${C10_LIBRARY}")
endif()
