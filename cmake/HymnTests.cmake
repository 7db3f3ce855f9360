# How tests are built and registered with ctest.
#
# One ctest is one run of one program. Every ctest has a timeout and at least one label: unit,
# gpu (what needs one, and passes without unless HYMN_REQUIRE_GPU=1), threads (what the
# ThreadSanitizer build runs), mpi, large, c, fortran and programs (what is started as a user starts it;
# sanitized builds leave both out), launchers, fault, house, package, mpich (a few tests over MPICH beside
# the MPI that hymn is built for, tests/mpich); full marks the long campaigns
# that only scripts/test --full runs. For each label L the target hymn_tests_L builds the programs it
# needs.

# Tests are compiled quickly rather than well: only what they test must be optimised, and those that
# compute much.
set(CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE} -O0")
set(CMAKE_CXX_FLAGS_DEBUG "${CMAKE_CXX_FLAGS_DEBUG} -O0")
set(hymn_test_optimisation -O1)
if(HYMN_SANITIZE)
  # A report names lines of the library; of tests it names functions.
  string(APPEND CMAKE_CXX_FLAGS_DEBUG " -g0")
  # To optimise what is sanitized takes longer than it gains, but for a few.
  set(hymn_test_optimisation -O0)
endif()

foreach(label IN ITEMS unit gpu threads mpi c fortran programs launchers fault house package mpich full)
  add_custom_target(hymn_tests_${label})
endforeach()

set(MPI_RANKS 1 2 3 4 7)
set(timeout_factor 1)
if(HYMN_SANITIZE)
  # Sanitized code is slow, and what is not found with so many ranks is seldom found with others.
  set(MPI_RANKS 3)
  set(timeout_factor 5)
endif()

# What nearly all tests include, compiled once for programs, and once for libraries of tests, whose
# options differ.
add_executable(hymn_test_headers EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/tests/support/precompiled.cpp")
add_library(hymn_test_library_headers OBJECT EXCLUDE_FROM_ALL
            "${PROJECT_SOURCE_DIR}/tests/support/precompiled.cpp")
target_compile_options(hymn_test_library_headers PRIVATE ${hymn_test_optimisation})
foreach(headers IN ITEMS hymn_test_headers hymn_test_library_headers)
  hymn_set_up_program(${headers} hymn_headers fmt::fmt GTest::gmock GTest::gtest Threads::Threads)
  set_target_properties(${headers} PROPERTIES HYMN_IS_TEST ON)
  hymn_precompile(${headers} <gmock/gmock.h> <gtest/gtest.h> [["hymn/hymn.hpp"]])
endforeach()

# hymn_set_up_tests(TARGET [COMPUTE_MUCH]): a library of tests, optimised; of those of sanitized builds
# only what computes much is.
function(hymn_set_up_tests target)
  cmake_parse_arguments(PARSE_ARGV 1 tests "COMPUTE_MUCH" "" "")
  set_target_properties(${target} PROPERTIES HYMN_IS_TEST ON)
  target_compile_options(${target} PRIVATE ${hymn_test_optimisation})
  target_link_libraries(${target} PRIVATE hymn_flags PUBLIC fmt::fmt GTest::gmock GTest::gtest Threads::Threads)
  target_precompile_headers(${target} REUSE_FROM hymn_test_library_headers)
  if(HYMN_SANITIZE AND tests_COMPUTE_MUCH)
    hymn_optimise_tests(${target})
  endif()
endfunction()

# hymn_optimise_tests(TARGET): these compute so much that it always pays.
function(hymn_optimise_tests target)
  target_compile_options(${target} PRIVATE -O1)
  set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # which were not
endfunction()

# hymn_test_program(NAME … SOURCES … [LINKS …]) builds a program that several ctests may run.
function(hymn_test_program)
  cmake_parse_arguments(PARSE_ARGV 0 test "" "NAME" "SOURCES;LINKS")
  add_executable(${test_NAME} ${test_SOURCES})
  set_target_properties(${test_NAME} PROPERTIES HYMN_IS_TEST ON)
  hymn_set_up_program(${test_NAME} ${test_LINKS} Threads::Threads)
  if(test_SOURCES MATCHES "\\.cpp")
    # As these headers were precompiled. (To link it to both would put the latter before archives, of
    # which it would then take what they hold of the standard library.)
    target_compile_definitions(
      ${test_NAME} PRIVATE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
    target_compile_options(
      ${test_NAME} PRIVATE $<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_OPTIONS>)
    target_precompile_headers(${test_NAME} REUSE_FROM hymn_test_headers)
    hymn_unite(${test_NAME})
  endif()
  set_target_properties(${test_NAME} PROPERTIES
                        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endfunction()

# What all ctests have in common. ENVIRONMENT is a list of NAME=value.
function(hymn_test_properties)
  cmake_parse_arguments(PARSE_ARGV 0 test "" "NAME;PROGRAM;TIMEOUT" "LABELS;ENVIRONMENT")
  math(EXPR timeout "${test_TIMEOUT} * ${timeout_factor}")
  # A table that somebody has tuned must not change the paths that tests take.
  list(PREPEND test_ENVIRONMENT HYMN_TUNING=off)
  list(APPEND test_ENVIRONMENT UBSAN_OPTIONS=print_stacktrace=1 GTEST_COLOR=no
              TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp MPIRUN=${MPIEXEC_EXECUTABLE})
  set_tests_properties(${test_NAME} PROPERTIES TIMEOUT ${timeout} LABELS "${test_LABELS}"
                       ENVIRONMENT "${test_ENVIRONMENT}")
  foreach(label IN LISTS test_LABELS)
    add_dependencies(hymn_tests_${label} ${test_PROGRAM})
  endforeach()
endfunction()

# hymn_ignore_leaks(TEST): what leaks is seen elsewhere.
function(hymn_ignore_leaks test)
  set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT_MODIFICATION "ASAN_OPTIONS=set:detect_leaks=0")
endfunction()

# hymn_take_cores(TEST): its ranks take all cores. One other test may run beside it where scripts/test-all
# runs twice as many as there are cores, and one: most of these wait. They come first, else none would be left
# to run beside them.
function(hymn_take_cores test)
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  math(EXPR cores "2 * ${cores}")
  set_tests_properties(${test} PROPERTIES PROCESSORS ${cores} COST 1000)
endfunction()

# hymn_run_test(NAME … PROGRAM … [ARGS …] [TIMEOUT 120] [LABELS unit] [ENVIRONMENT …])
#
# Runs the program once, as one process.
function(hymn_run_test)
  set(test_TIMEOUT 120)
  set(test_LABELS unit)
  cmake_parse_arguments(PARSE_ARGV 0 given "" "NAME;PROGRAM;TIMEOUT" "ARGS;LABELS;ENVIRONMENT")
  foreach(option IN ITEMS TIMEOUT LABELS)
    if(given_${option})
      set(test_${option} ${given_${option}})
    endif()
  endforeach()
  add_test(NAME ${given_NAME} COMMAND ${given_PROGRAM} ${given_ARGS})
  hymn_test_properties(NAME ${given_NAME} PROGRAM ${given_PROGRAM} TIMEOUT ${test_TIMEOUT}
                       LABELS ${test_LABELS} ENVIRONMENT ${given_ENVIRONMENT})
endfunction()

# hymn_run_mpi_test(NAME … PROGRAM … [RANKS 1 2 3 4 7] [ARGS …] [TIMEOUT 120] [LABELS mpi]
#                   [ENVIRONMENT …] [WAITS] [LEAKS_ARE_SEEN_ELSEWHERE])
#
# Runs the program under mpirun, once for each number of ranks, as the ctest <NAME>_n<ranks>. These
# run beside one other test at most, for ranks that have to share their cores are slow; unless they mostly
# wait (WAITS), for limits to pass, for launchers and for MPI to begin and to end. One rank waits for
# no other.
#
# To tell what MPI leaks from what hymn does takes most of the time of a program that allocates much
# (see scripts/mpirun): LEAKS_ARE_SEEN_ELSEWHERE names those whose calls others make, too.
function(hymn_run_mpi_test)
  set(test_TIMEOUT 120)
  set(test_LABELS mpi)
  set(test_RANKS ${MPI_RANKS})
  cmake_parse_arguments(PARSE_ARGV 0 given "WAITS;LEAKS_ARE_SEEN_ELSEWHERE" "NAME;PROGRAM;TIMEOUT"
                        "RANKS;ARGS;LABELS;ENVIRONMENT")
  foreach(option IN ITEMS TIMEOUT LABELS RANKS)
    if(given_${option})
      set(test_${option} ${given_${option}})
    endif()
  endforeach()
  if(HYMN_SANITIZE AND 3 IN_LIST test_RANKS)
    set(test_RANKS 3)
  elseif(HYMN_SANITIZE)  # what few ranks show, more show, too
    list(GET test_RANKS -1 test_RANKS)
  endif()
  foreach(ranks IN LISTS test_RANKS)
    set(run ${given_NAME}_n${ranks})
    add_test(NAME ${run} COMMAND "${PROJECT_SOURCE_DIR}/scripts/mpirun" -n ${ranks}
                                 $<TARGET_FILE:${given_PROGRAM}> ${given_ARGS})
    hymn_test_properties(NAME ${run} PROGRAM ${given_PROGRAM} TIMEOUT ${test_TIMEOUT}
                         LABELS ${test_LABELS} ENVIRONMENT ${given_ENVIRONMENT})
    if(given_LEAKS_ARE_SEEN_ELSEWHERE)
      hymn_ignore_leaks(${run})
    endif()
    if(NOT given_WAITS AND ranks GREATER 1)
      hymn_take_cores(${run})
    endif()
  endforeach()
endfunction()

# hymn_add_test(NAME … SOURCES … [LINKS …] [what hymn_run_test takes])
#
# A GoogleTest program of one process. gtest's main() is there unless a source brings one.
function(hymn_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 test "" "NAME" "SOURCES;LINKS;ARGS;TIMEOUT;LABELS;ENVIRONMENT")
  hymn_test_program(NAME ${test_NAME} SOURCES ${test_SOURCES}
                    LINKS ${test_LINKS} GTest::gmock GTest::gtest_main)
  hymn_run_test(NAME ${test_NAME} PROGRAM ${test_NAME} ARGS ${test_ARGS} TIMEOUT ${test_TIMEOUT}
                LABELS ${test_LABELS} ENVIRONMENT ${test_ENVIRONMENT})
endfunction()

# hymn_add_mpi_test(NAME … SOURCES … [LINKS …] [what hymn_run_mpi_test takes])
#
# A program of its own for mpirun. One of its SOURCES, or of its LINKS, brings main().
function(hymn_add_mpi_test)
  cmake_parse_arguments(PARSE_ARGV 0 test "" "NAME"
                        "SOURCES;LINKS;RANKS;ARGS;TIMEOUT;LABELS;ENVIRONMENT")
  hymn_test_program(NAME ${test_NAME} SOURCES ${test_SOURCES} LINKS ${test_LINKS} MPI::MPI_C)
  hymn_keep_plugins(${test_NAME})
  hymn_run_mpi_test(NAME ${test_NAME} PROGRAM ${test_NAME} RANKS ${test_RANKS} ARGS ${test_ARGS}
                    TIMEOUT ${test_TIMEOUT} LABELS ${test_LABELS} ENVIRONMENT ${test_ENVIRONMENT})
endfunction()

# hymn_rank_tests(ROOM SOURCES … LINKS …): the library <ROOM>_tests of everything collective of a room,
# and the programs <ROOM>_threads and <ROOM>_mpi, which run them with ranks as threads and as processes.
# some_ranks is how many threads the former should have.
function(hymn_rank_tests room)
  cmake_parse_arguments(PARSE_ARGV 1 tests "" "" "SOURCES;LINKS")
  add_library(${room}_tests OBJECT ${tests_SOURCES})
  hymn_set_up_tests(${room}_tests)
  hymn_unite(${room}_tests)
  target_link_libraries(${room}_tests PUBLIC hymn_test_support ${tests_LINKS} hymn)
  set(support "${PROJECT_SOURCE_DIR}/tests/support")
  hymn_test_program(NAME ${room}_threads SOURCES "${support}/threads_main.cpp" LINKS ${room}_tests)
  hymn_test_program(NAME ${room}_mpi SOURCES "${support}/mpi_main.cpp" LINKS ${room}_tests MPI::MPI_C)
  hymn_keep_plugins(${room}_mpi)
  set(some_ranks "TEST_RANKS=1 2 3 4 7" PARENT_SCOPE)
  if(HYMN_SANITIZE)
    set(some_ranks "TEST_RANKS=3" PARENT_SCOPE)
  endif()
endfunction()

# In sanitized builds a program that ends MPI must keep MPI's plugins loaded: see the source.
function(hymn_keep_plugins program)
  if(HYMN_SANITIZE)
    set(source "${PROJECT_SOURCE_DIR}/tests/support/keep_plugins.cpp")
    target_sources(${program} PRIVATE "${source}")
    # It defines otherwise what <dlfcn.h>, which others include, declares.
    set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()
