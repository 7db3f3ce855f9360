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

# hymn_add_room(NAME base [OWN_LIBRARY] SOURCES … [SMALL …] [ROOMS …] [LINKS …])
#
# The static library hymn_<name>, of which libhymn.so is made; or, with OWN_LIBRARY, the shared one
# libhymn-<name>.so above that, which uses what is public of it. SMALL are sources that work when a job
# begins, has failed or is asked about, or that wait for a network: what counts is how large they are.
# ROOMS are the rooms whose headers it includes, which scripts/check-rooms holds against its real
# includes; LINKS are third-party libraries.
function(hymn_add_room)
  cmake_parse_arguments(PARSE_ARGV 0 room "OWN_LIBRARY" "NAME" "ROOMS;SOURCES;SMALL;LINKS")
  set(target hymn_${room_NAME})
  if(room_OWN_LIBRARY)
    set(room_ROOMS hymn)
    add_library(${target} SHARED ${room_SOURCES})
    add_library(hymn::${room_NAME} ALIAS ${target})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME hymn-${room_NAME} EXPORT_NAME ${room_NAME}
                                               VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
    hymn_set_up_room(${target})
    return()
  endif()
  list(TRANSFORM room_ROOMS PREPEND hymn_)
  # base defines what the public headers of all rooms declare, such as the errors.
  if(NOT room_NAME STREQUAL "base")
    list(APPEND room_ROOMS hymn_base)
  endif()
  add_library(${target} STATIC ${room_SOURCES})
  hymn_set_up_room(${target})
  set_property(GLOBAL APPEND PROPERTY HYMN_ROOMS ${target})
  # These are small sources altogether.
  if(room_NAME MATCHES "^(control|gpu|topology)$")
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
  endif()
  # Decides, and computes nothing: -O3 would make it larger, and no faster.
  if(room_NAME MATCHES "^(base|recorder|runtime)$")
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O2>)
  endif()
  if(room_SMALL)
    # A target of its own, as CMake unites only sources that have the options of their target.
    add_library(${target}_small OBJECT ${room_SMALL})
    hymn_set_up_room(${target}_small)
    target_compile_options(${target}_small PRIVATE $<$<CONFIG:Release>:-Os>)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_small>)
    set_property(GLOBAL APPEND PROPERTY HYMN_SMALL ${target}_small)
  endif()
endfunction()

# hymn_set_up_room(TARGET): all sources of a room, or the small ones. Reads the arguments of
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

# libhymn.so, made of the objects of all rooms: only what HYMN_API marks, and is hymn's by its name
# (hymn.map), can be seen from outside.
function(hymn_add_library)
  get_property(rooms GLOBAL PROPERTY HYMN_ROOMS)
  get_property(small GLOBAL PROPERTY HYMN_SMALL)
  set(objects ${rooms} ${small})
  list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  add_library(hymn SHARED ${objects})
  add_library(hymn::hymn ALIAS hymn)
  # The archives add nothing to their objects: they bring in the third-party libraries of the rooms.
  target_link_libraries(hymn PUBLIC hymn_headers PRIVATE hymn_flags ${rooms})
  set_target_properties(hymn PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                                        SOVERSION ${PROJECT_VERSION_MAJOR})
  # Its threads and exit handlers outlive a dlclose.
  # Names of what a source has for itself alone are a tenth of the file: debuggers find them in other
  # builds.
  target_link_options(hymn PRIVATE LINKER:-z,nodelete LINKER:--gc-sections
                                   $<$<CONFIG:Release>:LINKER:--discard-all>
                                   "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/hymn.map")
  set_property(TARGET hymn APPEND PROPERTY LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/hymn.map")
  target_link_libraries(hymn_mpi INTERFACE hymn MPI::MPI_C)
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
