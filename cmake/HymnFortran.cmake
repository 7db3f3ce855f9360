# The Fortran compiler for libhymn-fortran (HYMN_FORTRAN): gfortran, of version 12 or newer, whose
# descriptors of arrays of any type and rank are right.

set(HYMN_FORTRAN AUTO CACHE STRING
    "Build libhymn-fortran: ON, OFF, or AUTO: where gfortran 12 or newer is found")
# Why it is not built; empty where it is.
set(hymn_no_fortran "")
set(hymn_fortran_remedy "install gfortran 12 or newer, give -DCMAKE_Fortran_COMPILER=PATH")

# For find_program.
function(hymn_is_new_gfortran result compiler)
  execute_process(COMMAND "${compiler}" -dumpversion OUTPUT_VARIABLE version
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR version VERSION_LESS 12)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

if(HYMN_FORTRAN STREQUAL "OFF")
  set(hymn_no_fortran "HYMN_FORTRAN is OFF")
elseif(HYMN_SANITIZE)
  set(hymn_no_fortran "HYMN_SANITIZE is '${HYMN_SANITIZE}', and gfortran would link its own sanitizers' libraries")
  set(hymn_fortran_remedy "leave HYMN_SANITIZE empty")
else()
  include(CheckLanguage)
  # Not what CMake would find first, such as Intel's; but a compiler that is named is taken.
  if(NOT CMAKE_Fortran_COMPILER AND NOT DEFINED ENV{FC})
    # The plain name, with which programs are compiled, unless that is too old; else the newest.
    find_program(HYMN_GFORTRAN NAMES gfortran gfortran-16 gfortran-15 gfortran-14 gfortran-13 gfortran-12
                 VALIDATOR hymn_is_new_gfortran)
    mark_as_advanced(HYMN_GFORTRAN)
    if(HYMN_GFORTRAN)
      set(ENV{FC} "${HYMN_GFORTRAN}")
    endif()
  endif()
  if(CMAKE_Fortran_COMPILER OR DEFINED ENV{FC})
    check_language(Fortran)
  endif()
  if(CMAKE_Fortran_COMPILER)
    enable_language(Fortran)
  endif()
  if(NOT CMAKE_Fortran_COMPILER)
    set(hymn_no_fortran "there is no gfortran 12 or newer that works")
  elseif(NOT CMAKE_Fortran_COMPILER_ID STREQUAL "GNU" OR CMAKE_Fortran_COMPILER_VERSION VERSION_LESS 12)
    set(hymn_no_fortran
        "${CMAKE_Fortran_COMPILER} is ${CMAKE_Fortran_COMPILER_ID} ${CMAKE_Fortran_COMPILER_VERSION}")
  endif()
endif()
if(hymn_no_fortran)
  if(HYMN_FORTRAN STREQUAL "ON")
    message(FATAL_ERROR "HYMN_FORTRAN is ON, but ${hymn_no_fortran}: ${hymn_fortran_remedy}, "
                        "or leave HYMN_FORTRAN at AUTO")
  endif()
  message(STATUS "libhymn-fortran is not built: ${hymn_no_fortran}")
endif()
