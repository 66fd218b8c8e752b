#include "kernels/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kernels/backend.h"

enum { ROWS = 512, QUEUED = 256 };

struct shape {
    int rank;
    int64_t dim[TENSOR_MAX_RANK];
};

struct row {
    const char *op, *phase;
    struct shape shapes[2];
    enum dtype dtype;
    int64_t calls;
    double seconds;
    struct rates_work work;
};

/* An op that was queued: events before and after it. */
struct queued {
    void *from, *to;
    struct row *row;
};

struct profile {
    struct row rows[ROWS];
    int n_rows;
    struct queued queued[QUEUED];
    int n_queued;
    struct device *device; /* of the events; NULL: there are none */
    double begun_s;
    int64_t lost; /* calls that had no row or no event */
};

struct profile *profile_new(void) {
    return calloc(1, sizeof(struct profile));
}

void profile_free(struct profile *p) {
    for (int i = 0; p && p->device && i < QUEUED; i++) {
        p->device->backend->unmark(p->device, p->queued[i].from);
        p->device->backend->unmark(p->device, p->queued[i].to);
    }
    free(p);
}

void stream_profile(struct stream *s, struct profile *p) { s->profile = p; }

/* The times of what was queued. */
static int profile_collect(struct profile *p, struct err *err) {
    int rc = 0;
    for (int i = 0; i < p->n_queued && !rc; i++) {
        double seconds = 0;
        if (!(rc = p->device->backend->between(p->device, p->queued[i].from, p->queued[i].to, &seconds, err)))
            p->queued[i].row->seconds += seconds;
    }
    p->n_queued = 0;
    return rc;
}

void profile_reset(struct profile *p) {
    profile_collect(p, NULL);
    p->n_rows = 0;
    p->lost = 0;
}

static struct shape profile_shape_of(const struct tensor *t) {
    struct shape shape = {.rank = t ? t->rank : 0};
    for (int i = 0; i < shape.rank && i < TENSOR_MAX_RANK; i++)
        shape.dim[i] = t->dim[i];
    return shape;
}

static bool profile_same_shape(const struct shape *a, const struct shape *b) {
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank && i < TENSOR_MAX_RANK; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

/* NULL: there is no room for one more. */
static struct row *profile_row_for(struct profile *p, const struct stream *s, const struct profile_call *call) {
    struct row new = {.op = call->op, .phase = s->phase ? s->phase : "", .dtype = call->dtype};
    for (int i = 0; i < 2; i++)
        new.shapes[i] = profile_shape_of(call->shown[i]);
    for (int i = 0; i < p->n_rows; i++) {
        struct row *r = &p->rows[i];
        if (!strcmp(r->op, new.op) && !strcmp(r->phase, new.phase) && r->dtype == new.dtype &&
            profile_same_shape(&r->shapes[0], &new.shapes[0]) && profile_same_shape(&r->shapes[1], &new.shapes[1]))
            return r;
    }
    if (p->n_rows == ROWS)
        return NULL;
    p->rows[p->n_rows] = new;
    return &p->rows[p->n_rows++];
}

void profile_begin(struct profile *p, struct stream *s) {
    const struct backend *b = s->device->backend;
    if (b->mark) {
        if (p->n_queued == QUEUED)
            profile_collect(p, NULL);
        p->device = s->device;
        if (b->mark(s, &p->queued[p->n_queued].from, NULL))
            p->lost++;
    }
    p->begun_s = clock_s();
}

void profile_end(struct profile *p, struct stream *s, const struct profile_call *call) {
    const struct backend *b = s->device->backend;
    double seconds = clock_s() - p->begun_s;
    struct row *r = profile_row_for(p, s, call);
    if (!r || (b->mark && b->mark(s, &p->queued[p->n_queued].to, NULL))) {
        p->lost++;
        return;
    }
    if (b->mark)
        p->queued[p->n_queued++].row = r;
    else
        r->seconds += seconds;
    r->calls++;
    r->work.bytes += call->work.bytes;
    r->work.exponentials += call->work.exponentials;
    r->work.flops += call->work.flops;
    r->work.flops_act += call->work.flops_act;
}

/* ---- the table ---- */

static int slowest_first(const void *a, const void *b) {
    const struct row *x = *(const struct row *const *)a, *y = *(const struct row *const *)b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : 0;
}

static void profile_shapes(const struct shape shapes[2], char *ret, size_t size) {
    struct str s = str_of(size - 1);
    for (int k = 0; k < 2 && shapes[k].rank; k++) {
        str_printf(&s, k ? " (" : "(");
        for (int i = 0; i < shapes[k].rank; i++)
            str_printf(&s, i ? ",%lld" : "%lld", (long long)shapes[k].dim[i]);
        str_printf(&s, ")");
    }
    str_copy(ret, size, str_cstr(&s));
    str_done(&s);
}

int profile_rows(struct profile *p, struct profile_row *rows, int most, struct err *err) {
    const struct row *order[ROWS];
    int rc = p->device ? profile_collect(p, err) : 0, n = p->n_rows < most ? p->n_rows : most;
    if (rc)
        return rc;
    for (int i = 0; i < p->n_rows; i++)
        order[i] = &p->rows[i];
    qsort(order, (size_t)p->n_rows, sizeof(const struct row *), slowest_first);
    for (int i = 0; i < n; i++) {
        const struct row *r = order[i];
        rows[i] = (struct profile_row){
            .op = r->op, .phase = r->phase, .dtype = r->dtype, .calls = r->calls, .seconds = r->seconds, .work = r->work};
        profile_shapes(r->shapes, rows[i].shapes, sizeof rows[i].shapes);
    }
    return n;
}

static void profile_line(const struct profile_row *r, const struct rates *rates, double total_s, struct str *out) {
    const double floor_s = rates_floor(rates, &r->work, r->dtype), spent_s = r->seconds > 0 ? r->seconds : 1e-9;
    str_printf(out, "%-26s %-10s %-32s %-4s %7lld %10.3f %5.1f%% %8.1f %10.3f %7.2f\n", r->op, r->phase, r->shapes,
               dtype_name(r->dtype), (long long)r->calls, r->seconds * 1e3, 100 * r->seconds / total_s,
               r->work.bytes / spent_s * 1e-9, floor_s * 1e3, floor_s > 0 ? spent_s / floor_s : 0);
}

int profile_table(struct profile *p, const struct rates *rates, struct str *out, struct err *err) {
    struct profile_row *rows = malloc(ROWS * sizeof *rows);
    if (!rows)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the table of a profile");
    int n = profile_rows(p, rows, ROWS, err);
    double total_s = 1e-9;
    for (int i = 0; i < n; i++)
        total_s += rows[i].seconds;
    if (n >= 0) {
        str_printf(out, "%-26s %-10s %-32s %-4s %7s %10s %6s %8s %10s %7s\n", "op", "phase", "operands", "type", "calls", "ms",
                   "share", "GB/s", "floor_ms", "factor");
        for (int i = 0; i < n; i++)
            profile_line(&rows[i], rates, total_s, out);
        str_printf(out, "%d rows, %.3f ms of ops, %lld calls not timed\n", n, total_s * 1e3, (long long)p->lost);
    }
    free(rows);
    return n < 0 ? n : str_ok(out) ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the table of a profile");
}
