# How rooms, the library and programs are made.

# hymn_precompile(TARGET [HEADER …]): the standard library, and these headers, are read once for a
# target.
function(hymn_precompile target)
  target_precompile_headers(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/cmake/precompiled.hpp>" ${ARGN})
endfunction()

# Sanitized builds, which are for tests alone and rather large, do so for the library, too. All other
# builds do without, so that a source which forgets to include what it uses is found there.
function(hymn_precompile_sanitized target)
  if(HYMN_SANITIZE)
    hymn_precompile(${target})
  endif()
endfunction()

# hymn_unite(TARGET): its sources are compiled several at a time, so that what they all include is
# read once for these. Left out are those with options of their own (CMake sees to that), and what
# has SKIP_UNITY_BUILD_INCLUSION. So many together, and not all, for two reasons: all cores are to
# have some, and who changes one compiles those that stand with it. Sanitized builds are seldom built
# twice.
function(hymn_unite target)
  set(batch 8)
  if(HYMN_SANITIZE)
    set(batch 24)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${HYMN_UNITY} UNITY_BUILD_BATCH_SIZE ${batch})
endfunction()

# hymn_add_room(NAME base [OWN_LIBRARY] SOURCES … [SMALL …] [MPI …] [ROOMS …] [LINKS …])
#
# The static library hymn_<name>, of which libhymn.so is made; or, with OWN_LIBRARY, the shared one
# libhymn-<name>.so above that, which uses what is public of it. SMALL are sources that work when a job
# begins, has failed or is asked about, or that wait for a network: what counts is how large they are.
# MPI are those that include <mpi.h>: all others are the same whichever MPI there is.
# ROOMS are the rooms whose headers it includes, which scripts/check-rooms holds against its real
# includes; LINKS are third-party libraries.
function(hymn_add_room)
  cmake_parse_arguments(PARSE_ARGV 0 room "OWN_LIBRARY" "NAME" "ROOMS;SOURCES;SMALL;MPI;LINKS")
  set(target hymn_${room_NAME})
  if(room_OWN_LIBRARY)
    set(room_ROOMS hymn)
    add_library(${target} SHARED ${room_SOURCES})
    add_library(hymn::${room_NAME} ALIAS ${target})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME hymn-${room_NAME} EXPORT_NAME ${room_NAME}
                                               VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
    hymn_set_up_room(${target})
    if(room_MPI)
      set(room_LANGUAGE CXX)
      if(room_SOURCES MATCHES "\\.f90")
        set(room_LANGUAGE Fortran)
      endif()
      hymn_add_part(mpi "${room_MPI}")
      set_target_properties(${target} PROPERTIES LINKER_LANGUAGE ${room_LANGUAGE})
      hymn_again_over_mpich()
    endif()
    return()
  endif()
  list(TRANSFORM room_ROOMS PREPEND hymn_)
  # base defines what the public headers of all rooms declare, such as the errors.
  if(NOT room_NAME STREQUAL "base")
    list(APPEND room_ROOMS hymn_base)
  endif()
  # These are small sources altogether.
  if(room_NAME MATCHES "^(control|gpu|topology)$")
    set(room_OPTION $<$<CONFIG:Release>:-Os>)
  endif()
  # Decides, and computes nothing: -O3 would make it larger, and no faster.
  if(room_NAME MATCHES "^(base|recorder|runtime)$")
    set(room_OPTION $<$<CONFIG:Release>:-O2>)
  endif()
  add_library(${target} STATIC ${room_SOURCES})
  hymn_set_up_room(${target})
  target_compile_options(${target} PRIVATE ${room_OPTION})
  set_property(GLOBAL APPEND PROPERTY HYMN_ROOMS ${target})
  set_property(GLOBAL APPEND PROPERTY HYMN_THIRD_PARTY ${room_LINKS})
  # Targets of their own, as CMake unites only sources that have the options of their target. What speaks
  # MPI waits for it, or works when a job begins.
  set(room_OPTION $<$<CONFIG:Release>:-Os>)
  if(room_MPI)
    hymn_add_part(mpi "${room_MPI}")
    set_property(GLOBAL APPEND PROPERTY HYMN_SPEAKS_MPI ${target}_mpi)
    hymn_again_over_mpich()
  endif()
  if(room_SMALL)
    hymn_add_part(small "${room_SMALL}")
    set_property(GLOBAL APPEND PROPERTY HYMN_SMALL ${target}_small)
  endif()
endfunction()

# hymn_add_part(PART SOURCES): these sources of the room, as the objects hymn_<name>_<part>.
macro(hymn_add_part part sources)
  add_library(${target}_${part} OBJECT ${sources})
  hymn_set_up_room(${target}_${part})
  target_compile_options(${target}_${part} PRIVATE ${room_OPTION})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${part}>)
endmacro()

# hymn_set_up_room(TARGET): all sources of a room, or a part of them. Reads the arguments of
# hymn_add_room.
macro(hymn_set_up_room target)
  # Includes are written from the root of the repository: "base/config.hpp".
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
                                       PRIVATE "${PROJECT_BINARY_DIR}/generated")
  target_link_libraries(${target} PUBLIC hymn_headers ${room_ROOMS}
                                  PRIVATE hymn_flags Threads::Threads ${room_LINKS})
  # Sanitized code takes twice as long to compile when it is optimised: only what has much to do is.
  if(HYMN_SANITIZE AND NOT room_NAME MATCHES "^(base|p2p|collectives)$")
    target_compile_options(${target} PRIVATE -O0)
  endif()
  hymn_unite(${target})
  hymn_precompile_sanitized(${target})
endmacro()

# libhymn.so, made of the objects of all rooms.
function(hymn_add_library)
  get_property(rooms GLOBAL PROPERTY HYMN_ROOMS)
  get_property(small GLOBAL PROPERTY HYMN_SMALL)
  get_property(speaks_mpi GLOBAL PROPERTY HYMN_SPEAKS_MPI)
  hymn_link_rooms(hymn ${rooms} ${small} ${speaks_mpi})
  add_library(hymn::hymn ALIAS hymn)
  # The archives add nothing to their objects: they bring in the third-party libraries of the rooms.
  target_link_libraries(hymn PRIVATE ${rooms})
  target_link_libraries(hymn_mpi INTERFACE hymn MPI::MPI_C)
  hymn_add_library_over_mpich(${rooms} ${small})
endfunction()

# hymn_link_rooms(NAME ROOM …): a libhymn.so of what these rooms, and parts of rooms, have compiled: only
# what HYMN_API marks, and is hymn's by its name (hymn.map), can be seen from outside.
function(hymn_link_rooms name)
  list(TRANSFORM ARGN REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(${name} SHARED ${objects})
  target_link_libraries(${name} PUBLIC hymn_headers PRIVATE hymn_flags)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                                           SOVERSION ${PROJECT_VERSION_MAJOR})
  # Its threads and exit handlers outlive a dlclose.
  # Names of what a source has for itself alone are a tenth of the file: debuggers find them in other
  # builds.
  target_link_options(${name} PRIVATE LINKER:-z,nodelete LINKER:--gc-sections
                                      $<$<CONFIG:Release>:LINKER:--discard-all>
                                      "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/hymn.map")
  set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/hymn.map")
endfunction()

# Settings of all programs, tests included. In sanitized builds libhymn.so needs the C++ half of the
# sanitizer's runtime even in a program written in C.
function(hymn_set_up_program name)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE hymn_flags ${ARGN})
  if(HYMN_SANITIZE)
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  endif()
endfunction()

# hymn_add_tool_library(NAME trace SOURCES … [ROOMS …] [USES …] [LINKS …])
#
# The static library hymn_<name>: a command, or what several have in common, apart so that tests
# reach its insides. ROOMS are those whose headers it includes: who links to it gets their archives, or,
# with the property HYMN_SHARED, libhymn.so, where the tools find what HYMN_PRIVATE marks. USES are seen
# by who links to it; LINKS are its own.
function(hymn_add_tool_library)
  cmake_parse_arguments(PARSE_ARGV 0 tool "" "NAME" "SOURCES;ROOMS;USES;LINKS")
  set(is_shared "$<BOOL:$<TARGET_PROPERTY:HYMN_SHARED>>")
  list(TRANSFORM tool_ROOMS REPLACE "(.+)" "$<IF:${is_shared},hymn,hymn_\\1>" OUTPUT_VARIABLE rooms)
  set(target hymn_${tool_NAME})
  add_library(${target} STATIC ${tool_SOURCES})
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PUBLIC ${tool_USES} ${rooms} PRIVATE hymn_flags ${tool_LINKS})
  if(HYMN_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  endif()
  hymn_unite(${target})
  hymn_precompile_sanitized(${target})
endfunction()

# hymn_add_program(NAME corpus_stats SOURCES … [OUTPUT_NAME …] [ROOMS …] [LINKS …])
#
# A program in build/bin, linked to libhymn.so; or, with ROOMS, to the archives of these rooms and
# what they use, whose insides it may then include.
function(hymn_add_program)
  cmake_parse_arguments(PARSE_ARGV 0 program "" "NAME;OUTPUT_NAME" "SOURCES;ROOMS;LINKS")
  set(library hymn)
  if(program_ROOMS)
    list(TRANSFORM program_ROOMS PREPEND hymn_ OUTPUT_VARIABLE library)
  endif()
  add_executable(${program_NAME} ${program_SOURCES})
  hymn_set_up_program(${program_NAME} ${library} ${program_LINKS})
  hymn_unite(${program_NAME})
  if(HYMN_SANITIZE)
    target_compile_options(${program_NAME} PRIVATE -O0)
  endif()
  if(program_OUTPUT_NAME)
    set_target_properties(${program_NAME} PROPERTIES OUTPUT_NAME ${program_OUTPUT_NAME})
  endif()
endfunction()
