# kernels: the op table, the CPU backend, and the loader of the CUDA backend.
brr_floor(brr_kernels DIRS kernels kernels/cpu kernels/cuda LINK brr_base OpenMP::OpenMP_C ${DNNL_LIBRARY} ${CMAKE_DL_LIBS})
# Products may be contracted to FMA and reductions reordered inside kernels; results stay deterministic per instruction set.
file(GLOB kernel_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cpu/*.c)
set_property(SOURCE ${kernel_sources} APPEND PROPERTY COMPILE_OPTIONS "-O3;-ffp-contract=fast;-fopenmp-simd")
# But for these, whose bits are those of lib/windows's normaliser, and of spiking networks, whose bits are the same on every device.
foreach(name windows augment spike spike_base spike_avx2 spike_avx512)
  set_property(SOURCE ${CMAKE_SOURCE_DIR}/kernels/cpu/${name}.c APPEND PROPERTY COMPILE_OPTIONS "-ffp-contract=off;-fno-trapping-math")
endforeach()

# The CUDA backend is a library that programs load when they find it (kernels/cuda/loader.c): they start without CUDA too.
find_program(BRR_NVCC NAMES nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
if(BRR_CUDA STREQUAL "ON" AND NOT BRR_NVCC)
  message(FATAL_ERROR "BRR_CUDA=ON, but no nvcc was found; set CUDA_HOME, or BRR_NVCC to its path")
endif()
set(BRR_CUDA_BUILT OFF)
if(BRR_NVCC AND NOT BRR_CUDA STREQUAL "OFF" AND NOT BRR_SANITIZE AND NOT BRR_FUZZ)
  get_filename_component(cuda_home ${BRR_NVCC} DIRECTORY)
  get_filename_component(cuda_home ${cuda_home} DIRECTORY)
  find_library(BRR_CUBLASLT NAMES cublasLt HINTS ${cuda_home}/lib64 ${cuda_home}/lib ${cuda_home}/targets/x86_64-linux/lib)
  if(BRR_CUBLASLT)
    set(BRR_CUDA_BUILT ON)
  elseif(BRR_CUDA STREQUAL "ON")
    message(FATAL_ERROR "BRR_CUDA=ON, but no libcublasLt was found beside ${BRR_NVCC}")
  endif()
endif()
if(BRR_CUDA_BUILT)
  set(cuda_flags -std=c++20 -O3 -lineinfo -I${CMAKE_SOURCE_DIR} -I${CMAKE_SOURCE_DIR}/lib -D_GNU_SOURCE
      -gencode arch=compute_80,code=sm_80 "-gencode" "arch=compute_90,code=[sm_90,compute_90]"
      -Xptxas -v,-warn-spills,-warn-lmem-usage # a kernel that spills, or has an array in local memory, is an error
      -Xcompiler -Wall,-Wextra,-fPIC,-fvisibility=hidden -Werror all-warnings)
  file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cuda/*.cu ${CMAKE_SOURCE_DIR}/kernels/cuda/*/*.cu)
  set(cuda_objects)
  foreach(source ${cuda_sources})
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
    set(report ${CMAKE_BINARY_DIR}/cuda/${name}/${name}.ptxas) # registers and memory of its kernels: tests/gpu/check_resources.py
    set(exact_flags)
    if(name STREQUAL "spike") # the bits of the CPU kernels
      set(exact_flags --fmad=false)
    endif()
    add_custom_command(OUTPUT ${object} DEPENDS ${source} DEPFILE ${object}.d VERBATIM COMMENT "Building CUDA object ${name}.cu"
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/cuda/${name}
      COMMAND sh -c "\"$@\" 2>'${report}' || { cat '${report}' >&2; exit 1; }" sh
        ${BRR_NVCC} ${cuda_flags} ${exact_flags} --keep --keep-dir ${CMAKE_BINARY_DIR}/cuda/${name} # its PTX: tests/gpu/check_ptx.py
        -MD -MF ${object}.d -c ${source} -o ${object}
      COMMAND sh -c "cd '${CMAKE_BINARY_DIR}/cuda/${name}' && rm -f *.ii *.cubin *.cudafe* *.fatbin* *.module_id")
    list(APPEND cuda_objects ${object})
  endforeach()
  add_library(brr_cuda_base OBJECT ${CMAKE_SOURCE_DIR}/base/err.c ${CMAKE_SOURCE_DIR}/base/str.c ${CMAKE_SOURCE_DIR}/kernels/tensor.c)
  target_include_directories(brr_cuda_base PRIVATE ${CMAKE_SOURCE_DIR}/lib ${CMAKE_SOURCE_DIR})
  set(cuda_library ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libbrr_cuda.so)
  get_filename_component(cublas_folder ${BRR_CUBLASLT} DIRECTORY)
  add_custom_command(OUTPUT ${cuda_library} DEPENDS ${cuda_objects} brr_cuda_base $<TARGET_OBJECTS:brr_cuda_base> VERBATIM
    COMMAND_EXPAND_LISTS COMMENT "Linking libbrr_cuda.so"
    COMMAND ${BRR_NVCC} -shared -cudart static -o ${cuda_library} ${cuda_objects} $<TARGET_OBJECTS:brr_cuda_base> ${BRR_CUBLASLT}
      -Xlinker -rpath,$ORIGIN:${cublas_folder} -Xlinker --no-undefined -lpthread -ldl -lm)
  add_custom_target(brr_cuda ALL DEPENDS ${cuda_library})
  message(STATUS "CUDA backend: ${BRR_NVCC}")
else()
  message(STATUS "CUDA backend: not built (BRR_CUDA=${BRR_CUDA}, nvcc ${BRR_NVCC})")
endif()
