/* matmul: cuBLASLt's place (cublasLt.h). Matrices are column-major; d = epilogue(alpha·op(a)·op(b) + beta·c). The sum over k is
 * made of pieces, each summed in order and then added: how long they are is the algorithm, or its two halves when it splits k. */
#include "emulator.h"

#include <cublasLt.h>
#include <cuda_bf16.h>

#include <string.h>

#include <vector>

struct emulator_products {
    int device;
};
struct emulator_matmul {
    cublasOperation_t trans_a, trans_b;
    cublasLtEpilogue_t epilogue;
    const void *bias;
};
struct emulator_layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld, step; /* step: to the next matrix of a batch */
    int32_t batch;
};
struct emulator_wishes {
    uint32_t reduction;
    uint32_t alignment[4];
};
enum { PIECE, SPLIT };

cublasStatus_t cublasLtCreate(cublasLtHandle_t *ret) {
    emulator_use_device();
    *ret = new emulator_products{emulator_current()};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return delete handle, CUBLAS_STATUS_SUCCESS; }
const char *cublasLtGetStatusString(cublasStatus_t) { return "an emulated failure"; }
cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value) {
    *value = type == MAJOR_VERSION ? CUBLAS_VER_MAJOR : 0;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *ret, cublasComputeType_t, cudaDataType_t) {
    *ret = new emulator_matmul{CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, NULL};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return delete desc, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, const void *value,
                                              size_t size) {
    void *to = name == CUBLASLT_MATMUL_DESC_TRANSA     ? (void *)&desc->trans_a
               : name == CUBLASLT_MATMUL_DESC_TRANSB   ? (void *)&desc->trans_b
               : name == CUBLASLT_MATMUL_DESC_EPILOGUE ? (void *)&desc->epilogue
                                                       : (void *)&desc->bias;
    memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *ret, cudaDataType_t type, uint64_t rows, uint64_t cols,
                                          int64_t ld) {
    *ret = NULL;
    if (!rows || !cols || ld < (int64_t)rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    *ret = new emulator_layout{type, rows, cols, ld, 0, 1};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                                const void *value, size_t size) {
    memcpy(name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? (void *)&layout->batch : (void *)&layout->step, value, size);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return delete layout, CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *ret) {
    *ret = new emulator_wishes{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, {16, 16, 16, 16}};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish) { return delete wish, CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wish, cublasLtMatmulPreferenceAttributes_t name,
                                                    const void *value, size_t size) {
    if (name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        memcpy(&wish->reduction, value, size);
    else if (name != CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        memcpy(&wish->alignment[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, size);
    return CUBLAS_STATUS_SUCCESS;
}

static bool suits(cublasLtMatrixLayout_t m) { return m->type == CUDA_R_32F || m->ld % 2 == 0; }

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result) {
    if (!algo->data[PIECE] || !suits(a) || !suits(b) || !suits(c) || a->batch != c->batch || b->batch != c->batch)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *result = {*algo, 0, CUBLAS_STATUS_SUCCESS, 1};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wish, int wanted, cublasLtMatmulHeuristicResult_t *results,
                                              int *found) {
    uint64_t k = desc->trans_a == CUBLAS_OP_N ? a->cols : a->rows, mixed = c->cols * 31 + c->rows * 7 + k + (uint64_t)c->ld * 5;
    mixed += wish->alignment[2] + wish->alignment[3]; /* of C */
    cublasLtMatmulAlgo_t algo = {};
    *found = 0;
    algo.data[PIECE] = 3 + mixed % 13;
    algo.data[SPLIT] = wish->reduction == CUBLASLT_REDUCTION_SCHEME_NONE ? 1 : 1 + mixed % 2;
    for (int i = 0; i < 4; i++)
        if (wish->alignment[i] < 4)
            return CUBLAS_STATUS_NOT_SUPPORTED;
    if (wanted < 1 || cublasLtMatmulAlgoCheck(handle, desc, a, b, c, d, &algo, results) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t,
                                                    void *value, size_t size, size_t *written) {
    int32_t split = (int32_t)algo->data[SPLIT];
    if (size != sizeof split)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, &split, size);
    *written = size;
    return CUBLAS_STATUS_SUCCESS;
}

static float element(const void *p, cudaDataType_t type, uint64_t at) {
    return type == CUDA_R_16BF ? __bfloat162float(((const __nv_bfloat16 *)p)[at]) : ((const float *)p)[at];
}
static void put(void *p, cudaDataType_t type, uint64_t at, float v) {
    if (type == CUDA_R_16BF)
        ((__nv_bfloat16 *)p)[at] = __float2bfloat16_rn(v);
    else
        ((float *)p)[at] = v;
}

struct product {
    struct emulator_matmul what;
    struct emulator_layout layout_a, layout_b, layout_d;
    const void *a, *b;
    void *d;
    float alpha, beta;
    uint64_t piece, split;
};

/* The matrix op(p) (rows, k) with neighbouring k side by side. */
static std::vector<float> rows_of(const void *p, const struct emulator_layout &l, bool k_runs_down) {
    uint64_t rows = k_runs_down ? l.cols : l.rows, k = k_runs_down ? l.rows : l.cols;
    std::vector<float> ret(rows * k);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t i = 0; i < k; i++)
            ret[r * k + i] = element(p, l.type, k_runs_down ? r * (uint64_t)l.ld + i : i * (uint64_t)l.ld + r);
    return ret;
}

static float sum_pieces(const float *x, const float *y, uint64_t k, uint64_t piece) {
    float total = 0;
    for (uint64_t from = 0; from < k; from += piece) {
        float sum = 0;
        for (uint64_t i = from; i < k && i < from + piece; i++)
            sum += x[i] * y[i];
        total += sum;
    }
    return total;
}

static void check(const void *p, const struct emulator_layout &l) {
    size_t each = l.type == CUDA_R_16BF ? 2 : 4;
    if (!memory_is_device(p) || !memory_holds(p, ((l.cols - 1) * (uint64_t)l.ld + l.rows) * each))
        emulator_fault = cudaErrorIllegalAddress;
}

static void multiply_one(const struct product &p) {
    check(p.a, p.layout_a);
    check(p.b, p.layout_b);
    check(p.d, p.layout_d);
    if (emulator_fault)
        return;
    std::vector<float> x = rows_of(p.a, p.layout_a, p.what.trans_a == CUBLAS_OP_T);
    std::vector<float> y = rows_of(p.b, p.layout_b, p.what.trans_b == CUBLAS_OP_N);
    uint64_t k = p.what.trans_a == CUBLAS_OP_T ? p.layout_a.rows : p.layout_a.cols, half = (k + p.split - 1) / p.split;
    for (uint64_t col = 0; col < p.layout_d.cols; col++)
        for (uint64_t row = 0; row < p.layout_d.rows; row++) {
            float v = 0;
            for (uint64_t from = 0; from < k; from += half)
                v += sum_pieces(&x[row * k + from], &y[col * k + from], k - from < half ? k - from : half, p.piece);
            uint64_t at = col * (uint64_t)p.layout_d.ld + row;
            v = p.alpha * v + (p.beta != 0 ? p.beta * element(p.d, p.layout_d.type, at) : 0);
            if (p.what.epilogue & CUBLASLT_EPILOGUE_BIAS)
                v += element(p.what.bias, p.layout_d.type, row);
            if (p.what.epilogue & CUBLASLT_EPILOGUE_RELU)
                v = v > 0 ? v : 0;
            put(p.d, p.layout_d.type, at, v);
        }
}

static void multiply(struct product p) {
    auto bytes = [](const struct emulator_layout &l) { return l.step * (l.type == CUDA_R_16BF ? 2 : 4); };
    for (int32_t i = 0; i < p.layout_d.batch; i++) {
        multiply_one(p);
        p.a = (const char *)p.a + bytes(p.layout_a);
        p.b = (const char *)p.b + bytes(p.layout_b);
        p.d = (char *)p.d + bytes(p.layout_d);
    }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t layout_a, const void *b, cublasLtMatrixLayout_t layout_b, const void *beta,
                              const void *, cublasLtMatrixLayout_t, void *d, cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t *algo, void *, size_t, cudaStream_t stream) {
    if (handle->device != emulator_current())
        return CUBLAS_STATUS_INVALID_VALUE;
    struct product p = {*desc,
                        *layout_a,
                        *layout_b,
                        *layout_d,
                        a,
                        b,
                        d,
                        *(const float *)alpha,
                        *(const float *)beta,
                        algo->data[PIECE],
                        algo->data[SPLIT]};
    return emulator_work(stream, [p] { multiply(p); }) == cudaErrorInvalidResourceHandle ? CUBLAS_STATUS_INVALID_VALUE
                                                                                         : CUBLAS_STATUS_SUCCESS;
}
