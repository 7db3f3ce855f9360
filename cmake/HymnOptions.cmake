# What a build can be asked for, and the compiler flags that follow from it.

option(HYMN_WERROR "Treat warnings as errors" OFF)
set(HYMN_SANITIZE "" CACHE STRING "Sanitizers for everything built, as -fsanitize= takes them")
option(HYMN_FUZZERS "Build the fuzz targets; needs clang and -DHYMN_SANITIZE=…,fuzzer-no-link" OFF)
option(HYMN_UNITY "Compile the sources of a target several at a time, so that headers are read less often" ON)
option(HYMN_PROGRAMS "Build the hymn command and the examples" ON)
option(HYMN_BENCH "Build the benchmarks of bench/, which `make bench` runs" OFF)
set(HYMN_TESTS AUTO CACHE STRING
    "Build the tests: ON, OFF, or AUTO: when this is the top project and GoogleTest is there")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

include(GNUInstallDirs)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
file(RELATIVE_PATH libraries_from_programs
     "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
# Also for libraries that programs load when they need them.
set(CMAKE_BUILD_RPATH "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
set(CMAKE_INSTALL_RPATH "$ORIGIN/${libraries_from_programs}")

find_program(CCACHE ccache)
mark_as_advanced(CCACHE)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
endif()

# Carried by every target of this project, never by what is installed.
add_library(hymn_flags INTERFACE)
target_compile_options(hymn_flags INTERFACE
  # A case for each enumerator, default or not: who adds one is led to whatever depends on it.
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wpedantic -Wshadow -Werror=switch-enum>
  $<$<COMPILE_LANGUAGE:Fortran>:-Wall -Wextra>
  $<$<COMPILE_LANGUAGE:CXX>:-Wconversion -Wno-sign-conversion -Wnon-virtual-dtor>
  # g++ 12 finds these where it has inlined the standard library, and is wrong (its bug 105651).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<COMPILE_LANGUAGE:C,CXX>>:-Wno-restrict -Wno-maybe-uninitialized>
  # Where sources are united g++ takes them for headers, in which this would be wrong.
  $<$<AND:$<BOOL:${HYMN_UNITY}>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-Wno-subobject-linkage>
  # clang blames us for what libstdc++ 12 uses inside std::stable_partition.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-deprecated-declarations>
  $<$<BOOL:${HYMN_WERROR}>:-Werror>)
# g++ looks for what it needs no more each time that its heap has doubled beyond 128 MiB, which takes a
# seventh of its time. Where a core has 4 GiB it need not look below one.
cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)  # in MiB
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR memory_of_a_core "${memory} / ${cores}")
if(memory_of_a_core GREATER_EQUAL 4096)
  target_compile_options(hymn_flags INTERFACE
                         $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1048576>)
endif()

if(HYMN_SANITIZE)
  set(sanitizers -fsanitize=${HYMN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(hymn_flags INTERFACE ${sanitizers}
    # A fault of arithmetic in a test is none of hymn's, and to look for it takes half of the time.
    $<$<BOOL:$<TARGET_PROPERTY:HYMN_IS_TEST>>:-fno-sanitize=undefined>)
  target_link_options(hymn_flags INTERFACE ${sanitizers})
  # clang's own linker needs a quarter of the time for what is so large, where there is one.
  get_filename_component(compiler "${CMAKE_CXX_COMPILER}" REALPATH)
  get_filename_component(compiler_programs "${compiler}" DIRECTORY)
  find_program(HYMN_LLD ld.lld HINTS "${compiler_programs}" NO_DEFAULT_PATH)
  mark_as_advanced(HYMN_LLD)
  if(HYMN_LLD)
    # It takes what it sees first: the standard library, not an archive that has a copy of a function
    # of it, and would bring in what a program does not need.
    target_link_options(hymn_flags INTERFACE "--ld-path=${HYMN_LLD}" -lstdc++)
  endif()
else()
  # A library with a symbol that nothing defines is found here, not by its first user. (Sanitizers
  # leave theirs to the program.)
  target_link_options(hymn_flags INTERFACE -Wl,-z,defs)
endif()
