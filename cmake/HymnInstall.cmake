# What `cmake --install` installs: libhymn.so, the public headers, the hymn command, and how CMake
# and pkg-config find them.
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/hymn")
set_target_properties(hymn_headers PROPERTIES EXPORT_NAME headers)
install(TARGETS hymn hymn_headers EXPORT hymn FILE_SET HEADERS FILE_SET adapters FILE_SET libtorch)
install(TARGETS hymn_command)
# All that is compiled for it, and nothing else: what `make install` builds.
add_custom_target(hymn_installed DEPENDS hymn hymn_command hymn_pictures)
install(TARGETS hymn_pictures LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(TARGET hymn_training)
  install(TARGETS hymn_training EXPORT hymn)
  add_dependencies(hymn_installed hymn_training)
endif()
install(TARGETS hymn_rpc EXPORT hymn)
add_dependencies(hymn_installed hymn_rpc)
install(TARGETS hymn_functional EXPORT hymn)
add_dependencies(hymn_installed hymn_functional)
if(TARGET hymn_fortran)
  install(TARGETS hymn_fortran EXPORT hymn)
  install(FILES "${hymn_fortran_module_file}" DESTINATION "${hymn_fortran_modules}")
  add_dependencies(hymn_installed hymn_fortran)
endif()
install(TARGETS hymn_simulation EXPORT hymn)
add_dependencies(hymn_installed hymn_simulation)
install(TARGETS hymn_preload LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
add_dependencies(hymn_installed hymn_preload)
if(TARGET hymn_png)
  install(TARGETS hymn_png LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  add_dependencies(hymn_installed hymn_png)
endif()
install(EXPORT hymn NAMESPACE hymn:: DESTINATION "${package_dir}" FILE hymn-targets.cmake)

# On its own, so that only who asks for the component mpi needs MPI.
set_target_properties(hymn_mpi PROPERTIES EXPORT_NAME mpi)
install(TARGETS hymn_mpi EXPORT hymn-mpi FILE_SET HEADERS)
install(EXPORT hymn-mpi NAMESPACE hymn:: DESTINATION "${package_dir}" FILE hymn-mpi-targets.cmake)

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/hymn-config.cmake.in"
                              "${PROJECT_BINARY_DIR}/hymn-config.cmake"
                              INSTALL_DESTINATION "${package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/hymn-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/hymn-config.cmake"
              "${PROJECT_BINARY_DIR}/hymn-config-version.cmake"
        DESTINATION "${package_dir}")

# The prefix is found from where the .pc file lies, so that the tree may be moved.
file(RELATIVE_PATH prefix_from_pc "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
list(TRANSFORM MPI_C_INCLUDE_DIRS PREPEND "-I" OUTPUT_VARIABLE mpi_cflags)
list(JOIN mpi_cflags " " mpi_cflags)
list(JOIN MPI_C_LIBRARIES " " mpi_libs)
set(pkg_config_modules hymn hymn-mpi)
if(TARGET hymn_fortran)
  list(APPEND pkg_config_modules hymn-fortran)
endif()
foreach(module IN LISTS pkg_config_modules)
  configure_file("${PROJECT_SOURCE_DIR}/cmake/${module}.pc.in"
                 "${PROJECT_BINARY_DIR}/${module}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${module}.pc"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
