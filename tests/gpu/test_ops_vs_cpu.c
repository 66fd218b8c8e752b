/* test_ops_vs_cpu [SEED]: every op of the table on the CPU and on cuda:0 with the same random inputs, F32 and bf16; all arrays of
 * the call are compared by norm afterwards, inputs too. A CPU without bf16 arithmetic (or BRR_TEST_REFERENCE=f32) computes bf16's
 * cases in F32, from inputs that were rounded to bf16. Exits 77 without a GPU (or library), 1 when an op differs. The GPU runs
 * every call twice from the same memory and must give the same bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "gpu_cases_table.h"
#include "tests/seed.h"

struct machine {
    struct device *device;
    struct stream *stream;
    struct tensor t[MAX_ARRAYS];
    double sums[2];
};

static struct rng rng;
static bool cpu_has_bf16;

static int rank_of(const struct array *a) {
    int rank = 0;
    while (rank < MAX_RANK && a->dim[rank])
        rank++;
    return rank;
}

static uint16_t narrow(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double value_of(const struct tensor *t, const void *host, int64_t i) {
    float f;
    if (t->dtype == DTYPE_U8)
        return ((const uint8_t *)host)[i];
    if (t->dtype == DTYPE_BF16) {
        uint32_t bits = (uint32_t)((const uint16_t *)host)[i] << 16;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    return (double)((const float *)host)[i];
}

static float rounded(float f) {
    uint32_t bits = (uint32_t)narrow(f) << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* F32, or U8; bf16: F32 that bf16 holds exactly. */
static void *random_array(const struct array *a, const struct tensor *t, bool bf16) {
    int64_t n = tensor_count(t);
    char *host = malloc((size_t)n * sizeof(float));
    for (int64_t i = 0; host && i < n; i++) {
        float f = a->low + (a->high - a->low) * (float)rng_uniform(&rng);
        if (t->dtype == DTYPE_U8)
            ((uint8_t *)host)[i] = (uint8_t)(f > 0 ? f : 0);
        else
            ((float *)host)[i] = bf16 && a->kind == ACT ? rounded(f) : f;
    }
    return host;
}

static int upload(struct machine *m, int i, const void *host, struct err *err) {
    int64_t n = tensor_count(&m->t[i]);
    uint16_t *narrowed = m->t[i].dtype == DTYPE_BF16 ? malloc((size_t)n * sizeof *narrowed) : NULL;
    for (int64_t k = 0; narrowed && k < n; k++)
        narrowed[k] = narrow(((const float *)host)[k]);
    int rc = stream_to_device(m->stream, m->t[i].data, narrowed ? (const void *)narrowed : host, tensor_span_bytes(&m->t[i]), err);
    rc = rc ? rc : stream_sync(m->stream, err);
    free(narrowed);
    return rc;
}

/* The arrays of a test on a machine; the first call allocates. */
static int prepare(struct machine *m, const struct op_test *test, void *const *host, bool bf16, struct err *err) {
    int rc = 0;
    for (int i = 0; !rc && i < MAX_ARRAYS; i++) {
        const struct array *a = &test->arrays[i];
        if (!a->kind)
            continue;
        if (!m->t[i].data) {
            struct tensor t = {.rank = rank_of(a),
                               .dtype = a->kind == U8            ? DTYPE_U8
                                        : a->kind == ACT && bf16 ? DTYPE_BF16
                                                                 : DTYPE_F32};
            memcpy(t.dim, a->dim, sizeof a->dim);
            t.ld = t.dim[t.rank - 1];
            rc = device_alloc(m->device, tensor_span_bytes(&t), &t.data, err);
            m->t[i] = t;
        }
        if (!rc && host)
            rc = upload(m, i, host[i], err);
    }
    return rc;
}

static int run_on(struct machine *m, const struct op_test *test, void *const *host, bool bf16, struct err *err) {
    int rc = prepare(m, test, host, bf16, err);
    m->sums[0] = m->sums[1] = 0;
    rc = rc ? rc : test->run(test, m->stream, m->t, m->sums, err);
    return rc ? rc : stream_sync(m->stream, err);
}

static void *download(struct machine *m, int i, struct err *err) {
    size_t bytes = tensor_span_bytes(&m->t[i]);
    void *host = malloc(bytes);
    if (host && (stream_to_host(m->stream, host, m->t[i].data, bytes, err) || stream_sync(m->stream, err))) {
        free(host);
        return NULL;
    }
    return host;
}

/* |a − b| / |a| of array i. */
static double distance(struct machine *cpu, struct machine *gpu, int i, struct err *err) {
    void *a = download(cpu, i, err), *b = download(gpu, i, err);
    double difference = 0, norm = 1e-12;
    for (int64_t n = 0; a && b && n < tensor_count(&cpu->t[i]); n++) {
        double x = value_of(&cpu->t[i], a, n), d = value_of(&gpu->t[i], b, n) - x;
        difference += d * d;
        norm += x * x;
    }
    double ret = a && b ? sqrt(difference / norm) : INFINITY;
    free(a);
    free(b);
    return ret;
}

static bool same_bits_again(struct machine *gpu, const struct op_test *test, void *const *host, bool bf16, struct err *err) {
    void *first[MAX_ARRAYS] = {0};
    double sums[2] = {gpu->sums[0], gpu->sums[1]};
    for (int i = 0; i < MAX_ARRAYS; i++)
        first[i] = gpu->t[i].data ? download(gpu, i, err) : NULL;
    bool same = !run_on(gpu, test, host, bf16, err) && !memcmp(sums, gpu->sums, sizeof sums);
    for (int i = 0; i < MAX_ARRAYS; i++) {
        void *second = gpu->t[i].data ? download(gpu, i, err) : NULL;
        same = same && (!gpu->t[i].data || (first[i] && second && !memcmp(first[i], second, tensor_span_bytes(&gpu->t[i]))));
        free(first[i]);
        free(second);
    }
    return same;
}

static void release(struct machine *m) {
    for (int i = 0; i < MAX_ARRAYS; i++)
        device_free(m->device, m->t[i].data);
    memset(m->t, 0, sizeof m->t);
}

static bool passes(struct machine *cpu, struct machine *gpu, const struct op_test *test, bool bf16) {
    struct err err = {0};
    void *host[MAX_ARRAYS] = {0};
    bool narrow_cpu = bf16 && cpu_has_bf16;
    int rc = prepare(cpu, test, NULL, narrow_cpu, &err);
    for (int i = 0; !rc && i < MAX_ARRAYS; i++)
        host[i] = test->arrays[i].kind ? random_array(&test->arrays[i], &cpu->t[i], bf16) : NULL;
    rc = rc ? rc : run_on(cpu, test, host, narrow_cpu, &err);
    rc = rc ? rc : run_on(gpu, test, host, bf16, &err);
    double worst = 0, tolerance = bf16 ? 1e-2 : 2e-5;
    int array = 0;
    for (int i = 0; !rc && i < MAX_ARRAYS; i++) {
        double d = cpu->t[i].data ? distance(cpu, gpu, i, &err) : 0;
        if (!(d <= worst)) {
            worst = d;
            array = i;
        }
    }
    for (int i = 0; !rc && i < 2; i++)
        if (!(fabs(cpu->sums[i] - gpu->sums[i]) <= 1e-9 * fabs(cpu->sums[i])))
            worst = INFINITY;
    bool same = !rc && same_bits_again(gpu, test, host, bf16, &err);
    bool ok = !rc && worst <= tolerance && same;
    printf("%-4s %-4s %-50s %.1e (array %d)%s %s\n", ok ? "ok" : "FAIL", bf16 ? "bf16" : "f32", test->name, worst, array,
           rc || same ? "" : "; a second run gave other bits", err.message);
    for (int i = 0; i < MAX_ARRAYS; i++)
        free(host[i]);
    release(cpu);
    release(gpu);
    return ok;
}

static bool open_machine(struct machine *m, const char *name, struct err *err) {
    return !device_open(name, 0, &m->device, err) && !stream_open(m->device, STREAM_NORMAL, &m->stream, err);
}

static void close_machine(struct machine *m) {
    stream_close(m->stream);
    device_close(m->device);
}

/* BRR_TEST_OPS: cases whose name contains one of these texts, between commas; all without it. */
static bool wanted(const char *name) {
    const char *only = getenv("BRR_TEST_OPS");
    char text[64];
    for (size_t n; only && *only; only += n + (only[n] == ',')) {
        n = strcspn(only, ",");
        snprintf(text, sizeof text, "%.*s", (int)n, only);
        if (strstr(name, text))
            return true;
    }
    return !getenv("BRR_TEST_OPS");
}

int main(int argc, char **argv) {
    struct machine cpu = {0}, gpu = {0};
    struct err err = {0};
    struct device_info info;
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : test_seed();
    if (device_open("cuda:0", 0, &gpu.device, &err)) {
        printf("skipped: hardware: no GPU: %s\n", err.message);
        return 77;
    }
    if (stream_open(gpu.device, STREAM_NORMAL, &gpu.stream, &err) || !open_machine(&cpu, "cpu", &err)) {
        printf("%s\n", err.message);
        return 1;
    }
    device_describe(gpu.device, &info);
    printf("%s, %s; seed %llu\n", info.name, info.description, (unsigned long long)seed);
    rng_init(&rng, seed, 1, 0);
    device_describe(cpu.device, &info);
    const char *reference = getenv("BRR_TEST_REFERENCE");
    cpu_has_bf16 = info.has_bf16 && !(reference && !strcmp(reference, "f32"));
    printf("bf16 is compared with the CPU's %s\n", cpu_has_bf16 ? "bf16" : "fp32 on rounded inputs");
    int failed = 0;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        for (int bf16 = 0; bf16 < (tests[i].f32_only ? 1 : 2); bf16++)
            failed += wanted(tests[i].name) && !passes(&cpu, &gpu, &tests[i], bf16);
    printf("%d of the ops' checks failed\n", failed);
    close_machine(&gpu);
    close_machine(&cpu);
    return failed ? 1 : 0;
}
