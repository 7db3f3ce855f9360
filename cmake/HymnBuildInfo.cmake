# Writes hymn_build_info.hpp, from which `hymn info` tells how this library was built.

set(HYMN_BUILD_COMPILER "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
set(HYMN_BUILD_TYPE "${CMAKE_BUILD_TYPE}")
if(HYMN_SANITIZE)
  string(APPEND HYMN_BUILD_TYPE ", sanitizers ${HYMN_SANITIZE}")
endif()
set(HYMN_BUILD_SYSTEM "${CMAKE_SYSTEM_NAME} ${CMAKE_SYSTEM_PROCESSOR}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/hymn_build_info.hpp.in"
               "${PROJECT_BINARY_DIR}/generated/hymn_build_info.hpp" @ONLY)
