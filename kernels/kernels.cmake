# kernels: the op table, the CPU backend, and the CUDA backend (or its stub).
brr_floor(brr_kernels DIRS kernels kernels/cpu LINK brr_base OpenMP::OpenMP_C ${DNNL_LIBRARY})
