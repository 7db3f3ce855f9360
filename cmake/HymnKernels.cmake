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

# The kinds of GPUs that there is to be machine code for: Ampere, Hopper and Blackwell.
set(hymn_gpu_kinds 80 90 100)

# hymn_gpu_options(OPTIONS): what tells this nvcc to make machine code for those of these kinds that it
# knows, PTX for what comes after them, and all of that small.
function(hymn_gpu_options options)
  execute_process(COMMAND "${HYMN_NVCC}" --list-gpu-arch OUTPUT_VARIABLE known
                  COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9]+" known "${known}")
  set(code "")
  foreach(kind IN LISTS hymn_gpu_kinds)
    if(kind IN_LIST known)
      set(ptx ${kind})
      # Of Ampere's PTX nvcc 13.0 makes the same machine code for Hopper, byte for byte, as of Hopper's
      # own, whose making is a fifth of all that nvcc does here.
      if(kind EQUAL 90 AND 80 IN_LIST known)
        set(ptx 80)
      endif()
      list(APPEND code -gencode=arch=compute_${ptx},code=sm_${kind})
    endif()
  endforeach()
  if(NOT code)
    message(FATAL_ERROR "${HYMN_NVCC} knows none of compute_${hymn_gpu_kinds}: -DHYMN_CUDA=OFF "
                        "builds without the kernels of GPUs")
  endif()
  list(APPEND code -gencode=arch=compute_${ptx},code=compute_${ptx} -Xfatbin -compress-all)
  # From CUDA 12.8 on there is a choice, and what it does if none is made is larger.
  execute_process(COMMAND "${HYMN_NVCC}" --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
  if(help MATCHES "--compress-mode")
    list(APPEND code --compress-mode=size)
  endif()
  set(${options} ${code} PARENT_SCOPE)
endfunction()

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
  get_filename_component(parts "${image}" DIRECTORY)
  string(APPEND parts "/kernels.parts")
  set(hymn_kernel_image "${image}" PARENT_SCOPE)
  set(hymn_kernel_parts "${parts}" PARENT_SCOPE)
  # Constexpr functions, as those of hymn/half.hpp, may be called by kernels. All kinds of GPUs at the
  # same time, for each takes as long as a third of the library. Kept is what goes into the image,
  # for tests, which cannot read what is compressed.
  if(NOT HYMN_KERNELS)
    hymn_gpu_options(code)
    file(MAKE_DIRECTORY "${parts}")
    add_custom_command(
      OUTPUT "${image}"
      COMMAND "${HYMN_NVCC}" -fatbin -O3 -std=c++20 --expt-relaxed-constexpr --threads 0
              -ccbin "${CMAKE_CXX_COMPILER}" -Werror all-warnings
              -I "${PROJECT_SOURCE_DIR}" -I "${PROJECT_SOURCE_DIR}/include" ${code}
              --keep --keep-dir "${parts}"
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
