/* products: matrix products through cuBLASLt. A plan (layouts and algorithm) is made once per shape, alignment and epilogue and
 * kept; what the library declines goes to the own kernel of gemm.cu and is counted. Row-major C = A·B is asked for as column-major
 * Cᵀ = Bᵀ·Aᵀ.
 *
 * Batch invariance: rows of C that are rows of a batch must not depend on how many rows there are. The library's choice does: so it
 * is asked for CHOICE_ROWS rows whatever m is, without split sums, and the algorithm it names is used for every m. */
#include "kernels/cuda/cuda.cuh"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

enum { PLANS = 1024, WAYS = 4, PROPOSALS = 8, CHOICE_ROWS = 4096 };

struct key {
    int64_t m, n, k, lda, ldb, ldc, like_ld; /* like_ld: of the C for which the algorithm is chosen */
    int64_t batch, step_a, step_b, step_c;   /* batch 1: no steps */
    int32_t trans_a, trans_b, bf16, c_bf16, adds, bias, relu;
    uint32_t align_a, align_b, align_c; /* of all products of a batch; align_c as of like_ld */
};

struct plan {
    bool made, declined;
    bool apart; /* the library does the product, and bias and ReLU are a pass after it */
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

static struct cuda_product_counts counts; /* of the process */

void cuda_products_count(struct cuda_product_counts *ret) {
    ret->shapes = __atomic_load_n(&counts.shapes, __ATOMIC_RELAXED);
    ret->declined = __atomic_load_n(&counts.declined, __ATOMIC_RELAXED);
    ret->apart = __atomic_load_n(&counts.apart, __ATOMIC_RELAXED);
}

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

/* The largest power of two up to 16, the widest access, that divides the address and a step from it, in elements. */
static uint32_t alignment(const void *p, int64_t step, bool bf16) {
    uintptr_t at = (uintptr_t)p | (uintptr_t)(step * (bf16 ? 2 : 4)) | 16;
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
    k.bias = g->bias != NULL;
    k.relu = g->relu;
    k.batch = 1;
    if (g->batch > 1) {
        k.batch = g->batch;
        k.step_a = g->step_a;
        k.step_b = g->step_b;
        k.step_c = g->step_c;
    }
    k.like_ld = g->like ? g->like_ld : g->ldc;
    k.align_a = alignment(g->a, k.step_a, g->bf16);
    k.align_b = alignment(g->b, k.step_b, g->bf16);
    k.align_c = g->like ? alignment(g->like, g->like_ld, g->c_bf16) : alignment(g->c, k.step_c, g->c_bf16);
    return k;
}

/* Whether rows of C are rows of a batch. The others are gradients of weights, whose sums run over the batch. */
static bool by_rows(const struct key *k) { return !k->trans_a; }

/* A row-major (rows, cols) matrix as the column-major one it also is. */
static cublasStatus_t layout(cublasLtMatrixLayout_t *ret, bool bf16, int64_t rows, int64_t cols, int64_t ld) {
    return cublasLtMatrixLayoutCreate(ret, bf16 ? CUDA_R_16BF : CUDA_R_32F, (uint64_t)cols, (uint64_t)rows, ld);
}

static cublasStatus_t set_batch(cublasLtMatrixLayout_t layout, int64_t batch, int64_t step) {
    int32_t count = (int32_t)batch;
    if (batch == 1)
        return CUBLAS_STATUS_SUCCESS;
    cublasStatus_t status = cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    return status != CUBLAS_STATUS_SUCCESS
               ? status
               : cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step);
}

/* Sets how many products a batch has, and their steps, in the layouts a, c and the plan's b. */
static cublasStatus_t set_batches(const struct plan *plan, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t c) {
    const struct key *k = &plan->key;
    cublasStatus_t status = set_batch(a, k->batch, k->step_a);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_batch(plan->b, k->batch, k->step_b);
    return status == CUBLAS_STATUS_SUCCESS ? set_batch(c, k->batch, k->step_c) : status;
}

static cublasStatus_t layout_a(cublasLtMatrixLayout_t *ret, const struct key *k, int64_t m) {
    return layout(ret, k->bf16, k->trans_a ? k->k : m, k->trans_a ? m : k->k, k->lda);
}

static cublasStatus_t wishes_of(const struct key *k, cublasLtMatmulPreference_t *ret) {
    size_t workspace = CUDA_WORKSPACE_BYTES;
    /* Split sums added in a fixed order, never in place; none at all where bits must not depend on the batch. */
    uint32_t sums = by_rows(k) ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
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
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(ret);
    for (size_t i = 0; status == CUBLAS_STATUS_SUCCESS && i < sizeof wishes / sizeof *wishes; i++)
        status = cublasLtMatmulPreferenceSetAttribute(*ret, wishes[i].what, wishes[i].value, wishes[i].size);
    return status;
}

static bool splits(const cublasLtMatmulAlgo_t *algo) {
    int32_t parts = 1;
    size_t written = 0;
    return cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof parts, &written) ==
               CUBLAS_STATUS_SUCCESS &&
           parts > 1;
}

/* The library's first usable proposal for the operands a and c. */
static cublasStatus_t propose(struct cuda_products *p, struct plan *plan, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t c) {
    cublasLtMatmulPreference_t wish = NULL;
    cublasLtMatmulHeuristicResult_t results[PROPOSALS];
    int found = 0;
    cublasStatus_t status = wishes_of(&plan->key, &wish);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoGetHeuristic(p->handle, plan->what, plan->b, a, c, c, wish, PROPOSALS, results, &found);
    if (wish)
        cublasLtMatmulPreferenceDestroy(wish);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    for (int i = 0; i < found; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS && !(by_rows(&plan->key) && splits(&results[i].algo))) {
            plan->algo = results[i].algo;
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

static cublasStatus_t choose(struct cuda_products *p, struct plan *plan) {
    const struct key *k = &plan->key;
    cublasLtMatrixLayout_t a = NULL, c = NULL;
    cublasLtMatmulHeuristicResult_t result;
    int64_t rows = by_rows(k) ? (int64_t)CHOICE_ROWS : k->m;
    cublasStatus_t status = layout_a(&a, k, rows);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = layout(&c, k->c_bf16, rows, k->n, by_rows(k) ? k->like_ld : k->ldc);
    if (status == CUBLAS_STATUS_SUCCESS && !by_rows(k)) /* rows get the algorithm of a single product */
        status = set_batches(plan, a, c);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = propose(p, plan, a, c);
    if (a)
        cublasLtMatrixLayoutDestroy(a);
    if (c)
        cublasLtMatrixLayoutDestroy(c);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_batches(plan, plan->a, plan->c);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulAlgoCheck(p->handle, plan->what, plan->b, plan->a, plan->c, plan->c, &plan->algo, &result);
    if (status == CUBLAS_STATUS_SUCCESS && result.workspaceSize > CUDA_WORKSPACE_BYTES)
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    return status;
}

/* Bias (one per column of C, in C's type) and ReLU in the product itself. */
static cublasStatus_t set_epilogue(struct plan *plan, bool bias, bool relu) {
    cublasLtEpilogue_t epilogue = bias   ? relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                                  : relu ? CUBLASLT_EPILOGUE_RELU
                                         : CUBLASLT_EPILOGUE_DEFAULT;
    return cublasLtMatmulDescSetAttribute(plan->what, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
}

static cublasStatus_t describe(struct plan *plan) {
    const struct key *k = &plan->key;
    cublasOperation_t op_a = k->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, op_b = k->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t status = cublasLtMatmulDescCreate(&plan->what, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->what, CUBLASLT_MATMUL_DESC_TRANSA, &op_b, sizeof op_b);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->what, CUBLASLT_MATMUL_DESC_TRANSB, &op_a, sizeof op_a);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = layout_a(&plan->a, k, k->m);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = layout(&plan->b, k->bf16, k->trans_b ? k->n : k->k, k->trans_b ? k->k : k->n, k->ldb);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = layout(&plan->c, k->c_bf16, k->m, k->n, k->ldc);
    return status;
}

static void make(struct cuda_products *p, struct plan *plan, const struct key *k) {
    forget(plan);
    plan->key = *k;
    plan->made = true;
    cublasStatus_t status = describe(plan);
    if (status == CUBLAS_STATUS_SUCCESS && (k->bias || k->relu)) {
        plan->apart = set_epilogue(plan, k->bias, k->relu) != CUBLAS_STATUS_SUCCESS || choose(p, plan) != CUBLAS_STATUS_SUCCESS;
        status = plan->apart ? set_epilogue(plan, false, false) : status;
    }
    if (k->batch > 1 && plan->apart)
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (status == CUBLAS_STATUS_SUCCESS && (plan->apart || !(k->bias || k->relu)))
        status = choose(p, plan);
    plan->declined = status != CUBLAS_STATUS_SUCCESS;
    if (k->batch > 1 && plan->declined) /* the products one by one count */
        return;
    __atomic_add_fetch(&counts.shapes, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&counts.declined, plan->declined, __ATOMIC_RELAXED);
    __atomic_add_fetch(&counts.apart, plan->apart && !plan->declined, __ATOMIC_RELAXED);
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

static cublasStatus_t multiply(struct cuda_stream *cs, const struct plan *plan, const struct cuda_gemm *g) {
    float one = 1.0f;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (g->bias && !plan->apart)
        status = cublasLtMatmulDescSetAttribute(plan->what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias, sizeof g->bias);
    return status != CUBLAS_STATUS_SUCCESS
               ? status
               : cublasLtMatmul(cs->products->handle, plan->what, &one, g->b, plan->b, g->a, plan->a, &g->beta, g->c, plan->c, g->c,
                                plan->c, &plan->algo, cs->workspace, CUDA_WORKSPACE_BYTES, cs->stream);
}

static int one_by_one(struct stream *s, const struct cuda_gemm *g, struct err *err) {
    size_t each = g->bf16 ? 2 : 4;
    struct cuda_gemm one = *g;
    int rc = 0;
    one.batch = 1;
    for (int64_t i = 0; !rc && i < g->batch; i++) {
        rc = cuda_gemm(s, &one, err);
        one.a = (const char *)one.a + (size_t)g->step_a * each;
        one.b = (const char *)one.b + (size_t)g->step_b * each;
        one.c = (char *)one.c + (size_t)g->step_c * (g->c_bf16 ? 2 : 4);
    }
    return rc;
}

int cuda_gemm(struct stream *s, const struct cuda_gemm *g, struct err *err) {
    struct cuda_stream *cs = cuda_stream(s);
    struct key key = key_of(g);
    struct plan *plan = plan_for(cs->products, &key);
    cublasStatus_t status = plan->declined ? CUBLAS_STATUS_NOT_SUPPORTED : multiply(cs, plan, g);
    if (status == CUBLAS_STATUS_SUCCESS) {
        if (plan->apart)
            cuda_bias_relu(s, g);
        return 0;
    }
    if (status == CUBLAS_STATUS_NOT_SUPPORTED && key.batch > 1) { /* nothing was queued */
        plan->declined = true;
        return one_by_one(s, g, err);
    }
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) { /* likewise */
        __atomic_add_fetch(&counts.declined, !plan->declined, __ATOMIC_RELAXED);
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
