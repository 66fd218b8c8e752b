/* products: matrix products through cuBLASLt. A plan (layouts and algorithm) is made once per shape, alignment and beta and kept;
 * what the library declines goes to the own kernel of gemm.cu. Row-major C = A·B is asked for as column-major Cᵀ = Bᵀ·Aᵀ. */
#include "kernels/cuda/cuda.cuh"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = 256, WAYS = 4 };

struct key {
    int64_t m, n, k, lda, ldb, ldc;
    int32_t trans_a, trans_b, bf16, c_bf16, adds;
    uint32_t align_a, align_b, align_c;
};

struct plan {
    bool made, declined;
    struct key key;
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
};

struct cuda_products {
    cublasLtHandle_t handle;
    unsigned next; /* of the ways of a full set, which to replace */
    struct plan plans[PLANS];
};

struct cuda_products *cuda_products_open(struct device *dev, struct err *err) {
    struct cuda_products *p = (struct cuda_products *)calloc(1, sizeof *p);
    if (!p) {
        err_set(err, ERR_EXHAUSTED, "%s: out of memory", dev->info.name);
        return NULL;
    }
    cublasStatus_t status = cublasLtCreate(&p->handle);
    if (status == CUBLAS_STATUS_SUCCESS)
        return p;
    err_set(err, ERR_INTERNAL, "%s: starting cuBLASLt: %s", dev->info.name, cublasLtGetStatusString(status));
    free(p);
    return NULL;
}

void cuda_products_version(int loaded[3], int compiled[3]) {
    for (int i = 0; i < 3; i++) {
        static const libraryPropertyType which[] = {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL};
        if (cublasLtGetProperty(which[i], &loaded[i]) != CUBLAS_STATUS_SUCCESS)
            loaded[i] = 0;
    }
    compiled[0] = CUBLAS_VER_MAJOR;
    compiled[1] = CUBLAS_VER_MINOR;
    compiled[2] = CUBLAS_VER_PATCH;
}

static void forget(struct plan *plan) {
    if (plan->a)
        cublasLtMatrixLayoutDestroy(plan->a);
    if (plan->b)
        cublasLtMatrixLayoutDestroy(plan->b);
    if (plan->c)
        cublasLtMatrixLayoutDestroy(plan->c);
    if (plan->what)
        cublasLtMatmulDescDestroy(plan->what);
    memset(plan, 0, sizeof *plan);
}

void cuda_products_close(struct cuda_products *p) {
    for (int i = 0; i < PLANS; i++)
        forget(&p->plans[i]);
    cublasLtDestroy(p->handle);
    free(p);
}

/* The largest power of two up to 256 that divides the address. */
static uint32_t alignment(const void *p) {
    uintptr_t at = (uintptr_t)p | 256;
    return (uint32_t)(at & (~at + 1));
}

static struct key key_of(const struct cuda_gemm *g) {
    struct key k;
    memset(&k, 0, sizeof k); /* compared as bytes */
    k.m = g->m;
    k.n = g->n;
    k.k = g->k;
    k.lda = g->lda;
    k.ldb = g->ldb;
    k.ldc = g->ldc;
    k.trans_a = g->trans_a;
    k.trans_b = g->trans_b;
    k.bf16 = g->bf16;
    k.c_bf16 = g->c_bf16;
    k.adds = g->beta != 0;
    k.align_a = alignment(g->a);
    k.align_b = alignment(g->b);
    k.align_c = alignment(g->c);
    return k;
}

/* A row-major (rows, cols) matrix as the column-major one it also is. */
static cublasStatus_t layout(cublasLtMatrixLayout_t *ret, bool bf16, int64_t rows, int64_t cols, int64_t ld) {
    return cublasLtMatrixLayoutCreate(ret, bf16 ? CUDA_R_16BF : CUDA_R_32F, (uint64_t)cols, (uint64_t)rows, ld);
}

static cublasStatus_t choose(struct cuda_products *p, struct plan *plan) {
    const struct key *k = &plan->key;
    cublasLtMatmulPreference_t wish = NULL;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&wish);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    size_t workspace = CUDA_WORKSPACE_BYTES;
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* split sums added in a fixed order, never in place */
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        const void *value;
        size_t size;
    } wishes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &k->align_b, sizeof k->align_b}, /* operands change places */
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &k->align_a, sizeof k->align_a},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &k->align_c, sizeof k->align_c},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &k->align_c, sizeof k->align_c},
    };
    for (size_t i = 0; status == CUBLAS_STATUS_SUCCESS && i < sizeof wishes / sizeof *wishes; i++)
        status = cublasLtMatmulPreferenceSetAttribute(wish, wishes[i].what, wishes[i].value, wishes[i].size);
    int found = 0;
    cublasLtMatmulHeuristicResult_t result;
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            cublasLtMatmulAlgoGetHeuristic(p->handle, plan->what, plan->b, plan->a, plan->c, plan->c, wish, 1, &result, &found);
    cublasLtMatmulPreferenceDestroy(wish);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (found < 1 || result.state != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    plan->algo = result.algo;
    return CUBLAS_STATUS_SUCCESS;
}

static void make(struct cuda_products *p, struct plan *plan, const struct key *k) {
    forget(plan);
    plan->key = *k;
    plan->made = true;
    cublasOperation_t op_a = k->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = k->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t status = cublasLtMatmulDescCreate(&plan->what, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->what, CUBLASLT_MATMUL_DESC_TRANSA, &op_b, sizeof op_b);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->what, CUBLASLT_MATMUL_DESC_TRANSB, &op_a, sizeof op_a);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = layout(&plan->a, k->bf16, k->trans_a ? k->k : k->m, k->trans_a ? k->m : k->k, k->lda);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = layout(&plan->b, k->bf16, k->trans_b ? k->n : k->k, k->trans_b ? k->k : k->n, k->ldb);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = layout(&plan->c, k->c_bf16, k->m, k->n, k->ldc);
    plan->declined = status != CUBLAS_STATUS_SUCCESS || choose(p, plan) != CUBLAS_STATUS_SUCCESS;
}

static struct plan *plan_for(struct cuda_products *p, const struct key *k) {
    uint64_t hash = 1469598103934665603ull;
    const unsigned char *bytes = (const unsigned char *)k;
    for (size_t i = 0; i < sizeof *k; i++)
        hash = (hash ^ bytes[i]) * 1099511628211ull;
    struct plan *set = &p->plans[hash % (PLANS / WAYS) * WAYS], *chosen = NULL;
    for (int i = 0; i < WAYS; i++) {
        if (set[i].made && !memcmp(&set[i].key, k, sizeof *k))
            return &set[i];
        if (!set[i].made && !chosen)
            chosen = &set[i];
    }
    if (!chosen)
        chosen = &set[p->next++ % WAYS];
    make(p, chosen, k);
    return chosen;
}

int cuda_gemm(struct stream *s, const struct cuda_gemm *g, struct err *err) {
    struct cuda_stream *cs = cuda_stream(s);
    struct key key = key_of(g);
    struct plan *plan = plan_for(cs->products, &key);
    if (plan->declined) {
        cuda_gemm_plain(s, g);
        return 0;
    }
    float one = 1.0f;
    cublasStatus_t status = cublasLtMatmul(cs->products->handle, plan->what, &one, g->b, plan->b, g->a, plan->a, &g->beta, g->c,
                                           plan->c, g->c, plan->c, &plan->algo, cs->workspace, CUDA_WORKSPACE_BYTES, cs->stream);
    if (status == CUBLAS_STATUS_SUCCESS)
        return 0;
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) { /* it proposed what this device then does not do; nothing was queued */
        plan->declined = true;
        cuda_gemm_plain(s, g);
        return 0;
    }
    cudaError_t below = cudaGetLastError();
    if (below != cudaSuccess)
        return cuda_failed(s->device, "a matrix product", below, err);
    return err_set(err, ERR_INTERNAL, "%s: a %lldx%lldx%lld %s product failed: %s", s->device->info.name, (long long)g->m,
                   (long long)g->n, (long long)g->k, g->bf16 ? "bf16" : "fp32", cublasLtGetStatusString(status));
}
