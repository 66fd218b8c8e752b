/* op_harness: runs one op of the table on random tensors in guarded memory and holds every output against a double reference.
 * A family describes its arrays; outputs come from `reference`, gradients (arrays with `of`) from central differences of
 * `objective`, both plain loops in double over dense arrays. Inputs are rounded to their dtype before the reference reads them. */
#pragma once
#include "scan_fixture.h"

enum { MAX_ARRAYS = 14, GUARD = 128, SAMPLES = 48, GAP = 3 };

enum role {
    ROLE_NONE,
    ROLE_IN,
    ROLE_OUT,
    ROLE_ADD, /* holds values before the call; the reference starts from them */
};

struct array_spec {
    const char *name;
    enum role role;
    int rank;
    int64_t dim[3];
    double low, high;
    bool act;      /* bf16 in bf16 cases */
    bool slice;    /* may have gaps between its rows, and lie at an odd address */
    bool derived;  /* an input that family->derive fills */
    bool rows;     /* leading dimension is the batch */
    bool optional; /* may be missing */
    bool u8;
    bool alone;  /* no other argument fixes its shape */
    bool host;   /* no tensor of the op: where `run` puts what the op returns to the host */
    bool scalar; /* compared element by element, not by norm */
    int of;      /* 1 + index of the input whose gradient this is */
};

struct op_case {
    const char *name;
    int64_t b, t, ci, co, k;
    int stride, pad, kind;
    bool relu, bias, more, bf16;
    double p;
};

struct family {
    const char *op;
    void (*describe)(const struct op_case *c, struct array_spec *specs);
    void (*derive)(const struct op_case *c, double *const *v);
    void (*reference)(const struct op_case *c, double *const *v);
    double (*objective)(const struct op_case *c, double *const *v);
    int (*run)(const struct op_case *c, const struct tensor *t, struct err *err);
    const struct op_case *cases; /* ends with a case without name */
    bool any_threads;            /* the same bits whatever the number of threads */
    bool row_free;               /* a row's result does not depend on the batch */
    bool bf16;                   /* activations may be bf16 */
    double tolerance;            /* F32; 0 = 1e-5 */
};

struct instance {
    const struct family *family;
    const struct op_case *c;
    struct array_spec spec[MAX_ARRAYS];
    struct tensor t[MAX_ARRAYS];
    unsigned char *memory[MAX_ARRAYS], *before[MAX_ARRAYS];
    size_t bytes[MAX_ARRAYS];
    double *v[MAX_ARRAYS];
};

static inline int64_t spec_count(const struct array_spec *s) {
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

/* Element n of a tensor, dense order. */
static inline char *element_at(const struct tensor *t, int64_t n) {
    int64_t cols = t->dim[t->rank - 1];
    return (char *)t->data + (size_t)(n / cols * t->ld + n % cols) * dtype_bytes(t->dtype);
}

static inline double element_get(const struct tensor *t, int64_t n) {
    const char *at = element_at(t, n);
    float f;
    uint16_t h;
    if (t->dtype == DTYPE_U8)
        return *(const unsigned char *)at;
    if (t->dtype == DTYPE_BF16) {
        memcpy(&h, at, sizeof h);
        return fixture_from_bf16(h);
    }
    memcpy(&f, at, sizeof f);
    return f;
}

static inline void element_set(const struct tensor *t, int64_t n, double x) {
    char *at = element_at(t, n);
    float f = (float)x;
    uint16_t h = fixture_bf16(f);
    if (t->dtype == DTYPE_U8)
        *(unsigned char *)at = (unsigned char)x;
    else
        memcpy(at, t->dtype == DTYPE_BF16 ? (void *)&h : (void *)&f, dtype_bytes(t->dtype));
}

/* Guarded memory full of NaN; slices get gaps and, half of the time, an address that is aligned to nothing but the element. */
static inline void make_array(struct instance *x, int i) {
    struct array_spec *s = &x->spec[i];
    struct tensor *t = &x->t[i];
    *t = (struct tensor){.dtype = s->u8 ? DTYPE_U8 : s->act && x->c->bf16 ? DTYPE_BF16 : DTYPE_F32, .rank = s->rank};
    memcpy(t->dim, s->dim, sizeof s->dim);
    bool gaps = s->slice && fixture_next() % 2, odd = s->slice && fixture_next() % 2;
    t->ld = s->dim[s->rank - 1] + (gaps ? GAP : 0);
    x->bytes[i] = 2 * GUARD + 64 + tensor_span_bytes(t) + (gaps ? GAP * 4 : 0);
    x->bytes[i] = (x->bytes[i] + 63) / 64 * 64;
    x->memory[i] = aligned_alloc(64, x->bytes[i]);
    x->before[i] = aligned_alloc(64, x->bytes[i]);
    x->v[i] = fixture_memory((size_t)spec_count(s) * sizeof(double));
    assert_true(x->memory[i] && x->before[i]);
    memset(x->memory[i], 0xff, x->bytes[i]);
    t->data = x->memory[i] + GUARD + (odd ? dtype_bytes(t->dtype) : 0);
    if ((s->role != ROLE_IN && s->role != ROLE_ADD) || s->derived)
        return;
    for (int64_t n = 0; n < spec_count(s); n++) {
        element_set(t, n, s->u8 ? floor(fixture_uniform(s->low, s->high + 0.999)) : fixture_uniform(s->low, s->high));
        x->v[i][n] = element_get(t, n);
    }
}

/* The memory as it is now is what every further run starts from. */
static inline void instance_keep(struct instance *x) {
    for (int i = 0; i < MAX_ARRAYS; i++)
        if (x->spec[i].role)
            memcpy(x->before[i], x->memory[i], x->bytes[i]);
}

static inline void instance_new(struct instance *x, const struct family *f, const struct op_case *c) {
    *x = (struct instance){.family = f, .c = c};
    f->describe(c, x->spec);
    for (int i = 0; i < MAX_ARRAYS; i++)
        if (x->spec[i].role)
            make_array(x, i);
    if (f->derive)
        f->derive(c, x->v);
    for (int i = 0; i < MAX_ARRAYS; i++)
        for (int64_t n = 0; x->spec[i].role && x->spec[i].derived && n < spec_count(&x->spec[i]); n++) {
            element_set(&x->t[i], n, x->v[i][n]);
            x->v[i][n] = element_get(&x->t[i], n);
        }
    instance_keep(x);
}

static inline void instance_free(struct instance *x) {
    for (int i = 0; i < MAX_ARRAYS; i++) {
        free(x->memory[i]);
        free(x->before[i]);
        free(x->v[i]);
    }
}

static inline void instance_restore(struct instance *x) {
    for (int i = 0; i < MAX_ARRAYS; i++)
        if (x->spec[i].role)
            memcpy(x->memory[i], x->before[i], x->bytes[i]);
}

static inline void instance_run(struct instance *x) {
    struct err err = {0};
    int rc = x->family->run(x->c, x->t, &err);
    if (!rc)
        rc = stream_sync(fixture.stream, &err);
    if (rc)
        fail_msg("%s, %s: %s", x->family->op, x->c->name, err.message);
}

/* Inputs as they were; of outputs only the elements written. */
static inline void check_guards(const struct instance *x, int i) {
    const char *what = x->spec[i].role == ROLE_IN ? "the input" : "memory around";
    unsigned char *now = x->memory[i];
    unsigned char *copy = aligned_alloc(64, x->bytes[i]);
    assert_non_null(copy);
    memcpy(copy, now, x->bytes[i]);
    size_t width = dtype_bytes(x->t[i].dtype);
    for (int64_t n = 0; x->spec[i].role != ROLE_IN && n < spec_count(&x->spec[i]); n++) {
        size_t at = (size_t)((unsigned char *)element_at(&x->t[i], n) - now);
        memcpy(copy + at, x->before[i] + at, width);
    }
    bool same = !memcmp(copy, x->before[i], x->bytes[i]);
    free(copy);
    if (!same)
        fail_msg("%s, %s: %s %s was overwritten", x->family->op, x->c->name, what, x->spec[i].name);
}

static inline double central_difference(const struct instance *x, int input, int64_t n) {
    double h = 1e-6, at = x->v[input][n], up, down;
    x->v[input][n] = at + h;
    up = x->family->objective(x->c, x->v);
    x->v[input][n] = at - h;
    down = x->family->objective(x->c, x->v);
    x->v[input][n] = at;
    return (up - down) / (2 * h);
}

/* Expected values of array i at the chosen elements (all, or a sample with both ends for gradients). */
static inline int64_t expected_of(const struct instance *x, int i, int64_t **ret_at, double **ret_value) {
    int64_t count = spec_count(&x->spec[i]), n = x->spec[i].of && count > SAMPLES ? SAMPLES : count;
    int64_t *at = fixture_memory((size_t)n * sizeof *at);
    double *value = fixture_memory((size_t)n * sizeof *value);
    for (int64_t q = 0; q < n; q++) {
        at[q] = n == count ? q : q == 0 ? 0 : q == 1 ? count - 1 : (int64_t)(fixture_next() % (uint64_t)count);
        if (x->spec[i].of)
            value[q] = central_difference(x, x->spec[i].of - 1, at[q]) + (x->spec[i].role == ROLE_ADD ? x->v[i][at[q]] : 0);
        else
            value[q] = x->v[i][at[q]];
    }
    *ret_at = at;
    *ret_value = value;
    return n;
}

static inline void check_values(const struct instance *x, int i) {
    int64_t *at;
    double *value, difference = 0, norm = 0, worst = 0;
    int64_t n = expected_of(x, i, &at, &value);
    double tolerance = x->c->bf16 ? (n < 64 ? 1.5e-2 : 4e-3) : /* a lone bf16 number may be off by 2^-8 twice over */
                           x->family->tolerance > 0 ? x->family->tolerance
                                                    : 1e-5;
    for (int64_t q = 0; q < n; q++) {
        double d = element_get(&x->t[i], at[q]) - value[q];
        difference += d * d;
        norm += value[q] * value[q];
        double alone = fabs(d) / fmax(fabs(value[q]), 1e-3);
        worst = alone > worst || isnan(alone) ? alone : worst;
    }
    norm = fmax(norm, n < 8 ? 1 : 1e-2 * (double)n); /* inputs are of size 1: a sum that cancels by chance is held against that */
    double distance = x->spec[i].scalar ? worst : sqrt(difference / norm);
    free(at);
    free(value);
    if (!(distance <= tolerance))
        fail_msg("%s, %s: %s differs from the reference by %.2e; at most %.0e", x->family->op, x->c->name, x->spec[i].name,
                 distance, tolerance);
    for (int64_t q = 0; q < spec_count(&x->spec[i]); q++)
        if (!isfinite(element_get(&x->t[i], q)))
            fail_msg("%s, %s: element %d of %s was not written", x->family->op, x->c->name, (int)q, x->spec[i].name);
}

static inline void check_against_reference(struct instance *x) {
    instance_run(x);
    if (x->family->reference)
        x->family->reference(x->c, x->v);
    for (int i = 0; i < MAX_ARRAYS; i++) {
        if (!x->spec[i].role)
            continue;
        check_guards(x, i);
        if (x->spec[i].role != ROLE_IN)
            check_values(x, i);
    }
}

static inline void check_same_memory(const struct instance *x, unsigned char *const *kept, const char *when) {
    for (int i = 0; i < MAX_ARRAYS; i++)
        if (x->spec[i].role && memcmp(kept[i], x->memory[i], x->bytes[i]))
            fail_msg("%s, %s: %s has other bits %s", x->family->op, x->c->name, x->spec[i].name, when);
}

/* Every row on its own gives the bits it has in the batch. */
static inline void check_rows_alone(const struct instance *whole) {
    struct op_case one = *whole->c;
    one.b = 1;
    for (int64_t row = 0; row < whole->c->b; row++) {
        struct instance x;
        instance_new(&x, whole->family, &one);
        for (int i = 0; i < MAX_ARRAYS; i++)
            for (int64_t n = 0; x.spec[i].role == ROLE_IN && n < spec_count(&x.spec[i]); n++) {
                int64_t from = n + (x.spec[i].rows ? row * spec_count(&x.spec[i]) : 0);
                memcpy(element_at(&x.t[i], n), element_at(&whole->t[i], from), dtype_bytes(x.t[i].dtype));
            }
        instance_run(&x);
        for (int i = 0; i < MAX_ARRAYS; i++)
            for (int64_t n = 0; x.spec[i].role == ROLE_OUT && x.spec[i].rows && n < spec_count(&x.spec[i]); n++)
                if (memcmp(element_at(&x.t[i], n), element_at(&whole->t[i], n + row * spec_count(&x.spec[i])),
                           dtype_bytes(x.t[i].dtype)))
                    fail_msg("%s, %s: row %d of %s depends on the other rows", x.family->op, x.c->name, (int)row, x.spec[i].name);
        instance_free(&x);
    }
}

/* ---- wrong arguments ------------------------------------------------------------------------------------------- */

/* The op must refuse t[i] = wrong, name itself and touch nothing. */
static inline void check_refused(struct instance *x, int i, struct tensor wrong, const char *how) {
    struct err err = {0};
    struct tensor right = x->t[i];
    x->t[i] = wrong;
    int rc = x->family->run(x->c, x->t, &err);
    x->t[i] = right;
    if (!rc)
        fail_msg("%s, %s: %s %s was accepted", x->family->op, x->c->name, x->spec[i].name, how);
    char start[80];
    snprintf(start, sizeof start, "op %s: ", x->family->op);
    if (strncmp(err.message, start, strlen(start)) || strlen(err.message) < strlen(start) + 8)
        fail_msg("%s: %s %s was refused with '%s'", x->family->op, x->spec[i].name, how, err.message);
    for (int k = 0; k < MAX_ARRAYS; k++)
        if (x->spec[k].role && !x->spec[k].host && memcmp(x->memory[k], x->before[k], x->bytes[k]))
            fail_msg("%s: %s was touched although %s %s was refused", x->family->op, x->spec[k].name, x->spec[i].name, how);
}

static inline void check_refusals(struct instance *x) {
    instance_restore(x);
    for (int i = 0; i < MAX_ARRAYS; i++) {
        if (!x->spec[i].role || x->spec[i].host)
            continue;
        struct tensor wrong = x->t[i];
        wrong.data = NULL;
        if (!x->spec[i].optional)
            check_refused(x, i, wrong, "missing");
        for (int d = 0; d < x->spec[i].rank; d++) {
            wrong = x->t[i];
            wrong.dim[d]++;
            wrong.ld += d == wrong.rank - 1;
            if (!x->spec[i].alone)
                check_refused(x, i, wrong, "one larger");
            wrong.dim[d] = 0;
            check_refused(x, i, wrong, "empty");
        }
        wrong = x->t[i];
        wrong.rank = wrong.rank == 1 ? 2 : wrong.rank - 1;
        wrong.dim[1] = wrong.rank == 2 ? 1 : wrong.dim[1];
        if (!x->spec[i].alone)
            check_refused(x, i, wrong, "of another rank");
        wrong = x->t[i];
        wrong.dtype = wrong.dtype == DTYPE_U8 ? DTYPE_F32 : DTYPE_U8;
        check_refused(x, i, wrong, "of another type");
        wrong = x->t[i];
        wrong.ld = wrong.dim[wrong.rank - 1] - 1;
        if (wrong.rank > 1)
            check_refused(x, i, wrong, "with overlapping rows");
        wrong.ld = wrong.dim[wrong.rank - 1] + 1;
        if (wrong.rank > 1 && !x->spec[i].slice)
            check_refused(x, i, wrong, "with gaps");
    }
}
