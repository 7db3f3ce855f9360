# The kernels of GPUs, compiled where there is nvcc (HYMN_CUDA).

set(HYMN_CUDA AUTO CACHE STRING
    "Compile the kernels of GPUs: ON, OFF, or AUTO: where nvcc is found")
if(NOT HYMN_CUDA STREQUAL "OFF")
  find_program(HYMN_NVCC nvcc PATHS /usr/local/cuda/bin)
  mark_as_advanced(HYMN_NVCC)
  set(HYMN_KERNELS "" CACHE FILEPATH
      "The image of these kernels from another build of this source, instead of compiling it again")
  mark_as_advanced(HYMN_KERNELS)
  if(NOT HYMN_NVCC AND NOT HYMN_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "HYMN_CUDA is ${HYMN_CUDA}, but there is no nvcc: install the CUDA toolkit, "
                        "give -DHYMN_NVCC=PATH, or leave HYMN_CUDA at AUTO")
  endif()
endif()

# Machine code for Ampere, Hopper and Blackwell, and PTX for what comes after them.
set(hymn_gpu_code
    -gencode=arch=compute_80,code=sm_80
    -gencode=arch=compute_90,code=sm_90
    -gencode=arch=compute_100,code=[sm_100,compute_100])

# hymn_compile_kernels(SOURCE): compiles SOURCE, named from the root of the repository, into one image
# for all these GPUs. Without nvcc there is none.
#
# Call it before there are rooms: nothing else takes so long, and Ninja begins with what it has read
# first.
function(hymn_compile_kernels source)
  if(NOT HYMN_NVCC OR HYMN_CUDA STREQUAL "OFF")
    return()
  endif()
  set(image "${PROJECT_BINARY_DIR}/collectives/kernels.fatbin")
  if(HYMN_KERNELS)
    set(image "${HYMN_KERNELS}")
  endif()
  set(hymn_kernel_image "${image}" PARENT_SCOPE)
  # Not compressed: it is small, and tests look into it. Constexpr functions, as those of
  # hymn/half.hpp, may be called by kernels.
  if(NOT HYMN_KERNELS)
    file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/collectives")
    add_custom_command(
      OUTPUT "${image}"
      COMMAND "${HYMN_NVCC}" -fatbin -O3 -std=c++20 --expt-relaxed-constexpr --no-compress -ccbin "${CMAKE_CXX_COMPILER}"
              -Werror all-warnings -I "${PROJECT_SOURCE_DIR}" -I "${PROJECT_SOURCE_DIR}/include"
              ${hymn_gpu_code}
              -MD -MF "${image}.d" -o "${image}" "${PROJECT_SOURCE_DIR}/${source}"
      MAIN_DEPENDENCY "${PROJECT_SOURCE_DIR}/${source}"
      DEPFILE "${image}.d"
      COMMENT "Compiling the kernels of GPUs"
      VERBATIM)
    add_custom_target(hymn_kernels DEPENDS "${image}")
  endif()
endfunction()

# hymn_embed_kernels(SOURCE EMBEDDER): lets EMBEDDER, a source of the same room, take in the image made
# of SOURCE (HYMN_KERNEL_IMAGE).
function(hymn_embed_kernels source embedder)
  if(NOT hymn_kernel_image)
    return()
  endif()
  set_source_files_properties("${embedder}" PROPERTIES
    COMPILE_DEFINITIONS "HYMN_KERNEL_IMAGE=\"${hymn_kernel_image}\""
    OBJECT_DEPENDS "${hymn_kernel_image}")
  # Ninja lets this source alone wait for the image; others know only of targets, which all wait.
  if(TARGET hymn_kernels AND NOT CMAKE_GENERATOR MATCHES "Ninja")
    get_filename_component(room "${CMAKE_CURRENT_SOURCE_DIR}" NAME)
    add_dependencies(hymn_${room} hymn_kernels)
  endif()
endfunction()
