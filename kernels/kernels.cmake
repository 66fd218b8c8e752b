# kernels: the op table, the CPU backend, and the CUDA backend (or its stub).
brr_floor(brr_kernels DIRS kernels kernels/cpu kernels/cuda LINK brr_base OpenMP::OpenMP_C ${DNNL_LIBRARY})
# Products may be contracted to FMA and reductions reordered inside kernels; results stay deterministic per instruction set.
file(GLOB kernel_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/cpu/*.c)
set_property(SOURCE ${kernel_sources} APPEND PROPERTY COMPILE_OPTIONS "-O3;-ffp-contract=fast;-fopenmp-simd")
