# MPICH beside another MPI, for tests: libhymn.so and the libraries above it a second time, in lib/mpich, of
# the same objects but for those that include <mpi.h> (MPI in the CMakeLists.txt of a room), which are
# compiled once more. So what can differ from MPI to MPI is tested wherever MPICH's headers lie beside those
# of the MPI that hymn is built for, as Debian's packages do, and costs a few sources. A source that includes
# <mpi.h>, and does not stand in MPI, is found by the linker: it wants the other MPI's symbols. Nothing of
# this is installed. To build all of hymn for MPICH is another matter: docs/mpi-support.md.

# Why there is none; empty where there is.
set(hymn_no_mpich "")
if(NOT HYMN_TESTS OR NOT HYMN_PROGRAMS)
  set(hymn_no_mpich "there are no tests")
elseif(HYMN_SANITIZE)
  set(hymn_no_mpich "this build is sanitized")
elseif(HYMN_MPI_IS_MPICH)
  set(hymn_no_mpich "hymn itself is built for MPICH, or for one that is made of it")
else()
  find_path(HYMN_MPICH_INCLUDE_DIR mpich/mpi.h)
  find_library(HYMN_MPICH_LIBRARY mpich)
  find_program(HYMN_MPICH_MPIRUN mpirun.mpich)
  # The Fortran side of it may be missing.
  find_program(HYMN_MPICH_MPIFORT mpifort.mpich)
  find_library(HYMN_MPICH_FORTRAN_LIBRARY mpichfort)
  mark_as_advanced(HYMN_MPICH_INCLUDE_DIR HYMN_MPICH_LIBRARY HYMN_MPICH_MPIRUN HYMN_MPICH_MPIFORT
                   HYMN_MPICH_FORTRAN_LIBRARY)
  if(NOT HYMN_MPICH_INCLUDE_DIR OR NOT HYMN_MPICH_LIBRARY OR NOT HYMN_MPICH_MPIRUN)
    set(hymn_no_mpich "there is no MPICH beside the MPI of this build (packages mpich, libmpich-dev)")
  endif()
endif()
if(NOT hymn_no_mpich)
  add_library(hymn_mpich INTERFACE)
  target_include_directories(hymn_mpich SYSTEM INTERFACE "${HYMN_MPICH_INCLUDE_DIR}/mpich")
  target_link_libraries(hymn_mpich INTERFACE "${HYMN_MPICH_LIBRARY}")
  target_compile_definitions(hymn_mpich INTERFACE MPICH_SKIP_MPICXX)
endif()

# hymn_again_over_mpich(): the sources of a room that include <mpi.h>, for MPICH. Called in hymn_add_room, whose
# arguments it reads. They are for tests: compiled quickly, and all as one.
function(hymn_again_over_mpich)
  if(hymn_no_mpich)
    return()
  endif()
  list(TRANSFORM room_LINKS REPLACE "^MPI::MPI_C$" hymn_mpich)
  set(again ${target}_mpich)
  add_library(${again} OBJECT ${room_MPI})
  hymn_set_up_room(${again})
  target_compile_options(${again} PRIVATE -O0)
  set_target_properties(${again} PROPERTIES UNITY_BUILD_BATCH_SIZE 0)
  if(NOT room_OWN_LIBRARY)
    set_property(GLOBAL APPEND PROPERTY HYMN_SPEAKS_MPICH ${again})
    return()
  endif()
  set(library ${target}_over_mpich)
  add_library(${library} SHARED $<TARGET_OBJECTS:${target}> $<TARGET_OBJECTS:${again}>)
  target_link_libraries(${library} PRIVATE hymn_flags hymn_over_mpich ${room_LINKS})
  set_target_properties(${library} PROPERTIES LINKER_LANGUAGE ${room_LANGUAGE} OUTPUT_NAME hymn-${room_NAME}
                                              SOVERSION ${PROJECT_VERSION_MAJOR})
  hymn_put_beside_mpich(${library})
endfunction()

# hymn_add_library_over_mpich(ROOM …): libhymn.so of what these have compiled, but for MPICH.
function(hymn_add_library_over_mpich)
  if(hymn_no_mpich)
    return()
  endif()
  get_property(speaks_mpich GLOBAL PROPERTY HYMN_SPEAKS_MPICH)
  hymn_link_rooms(hymn_over_mpich ${ARGN} ${speaks_mpich})
  get_property(libraries GLOBAL PROPERTY HYMN_THIRD_PARTY)
  list(REMOVE_DUPLICATES libraries)
  list(TRANSFORM libraries REPLACE "^MPI::MPI_C$" hymn_mpich)
  target_link_libraries(hymn_over_mpich PRIVATE ${libraries} Threads::Threads)
  set_target_properties(hymn_over_mpich PROPERTIES OUTPUT_NAME hymn)
  hymn_put_beside_mpich(hymn_over_mpich)
endfunction()

# hymn_put_beside_mpich(TARGET): a library that lies in lib/mpich, or a program that finds its libraries
# there and not in lib.
function(hymn_put_beside_mpich target)
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib/mpich"
                                             BUILD_RPATH "${PROJECT_BINARY_DIR}/lib/mpich")
endfunction()
