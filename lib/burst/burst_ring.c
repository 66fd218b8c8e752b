/* The sums of inputs: one row of them, or with delays a ring of rows, of which all but one hold inputs between two ticks. */

#include "burst/burst_parts.h"

/* A row on the host as the device has it. */
struct row {
    size_t n, bytes; /* neurons and their padding, and the row's memory */
    bool wide, cells;
    void *sums;
    uint32_t *touched;
};

static int row_open(const struct burst *b, bool wide, struct row *ret, struct err *err) {
    size_t n = (size_t)burst_padded(b);
    struct row row = {.n = n, .bytes = n * burst_sum_bytes(b->remote, wide), .wide = wide, .cells = b->remote && !wide};
    row.sums = malloc(row.bytes);
    row.touched = malloc(n / 8);
    *ret = row;
    return row.sums && row.touched ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the sums of %u neurons", b->net.n);
}

static void row_done(struct row *row) { FREE_MEMBERS(*row, sums, touched); }

static void row_set(struct row *row, size_t i, int64_t sum) {
    bool none = sum == SPIKE_NO_INPUT_64;
    if (row->cells)
        ((uint64_t *)row->sums)[i] = none ? 0 : ((uint64_t)sum << 32) + 1;
    else if (row->wide)
        ((int64_t *)row->sums)[i] = none ? SPIKE_NO_INPUT_64 : sum;
    else
        ((int32_t *)row->sums)[i] = none ? SPIKE_NO_INPUT_32 : (int32_t)sum;
    row->touched[i / 32] |= none ? 0 : 1U << i % 32;
}

static int64_t row_get(const struct row *row, bool touches, size_t i) {
    if (row->cells) {
        uint64_t cell = ((const uint64_t *)row->sums)[i];
        return cell ? (int64_t)cell >> 32 : SPIKE_NO_INPUT_64;
    }
    if (!row->wide) {
        int32_t sum = ((const int32_t *)row->sums)[i];
        return sum == SPIKE_NO_INPUT_32 ? SPIKE_NO_INPUT_64 : sum;
    }
    int64_t sum = ((const int64_t *)row->sums)[i];
    if (!touches)
        return sum;
    return row->touched[i / 32] >> i % 32 & 1 ? (int64_t)((uint64_t)sum - (uint64_t)SPIKE_NO_INPUT_64) : SPIKE_NO_INPUT_64;
}

/* The device's row of the tick that comes `ahead` ticks after the newest. */
static size_t row_place(const struct burst *b, int ahead) {
    return (size_t)((b->tick + (uint64_t)ahead) % (uint64_t)b->net.delays);
}

/* On the device touched bits go with the wide sums that it adds to "no input" without a look. */
static int row_write(struct burst *b, struct row *row, int ahead, const int64_t *sums, struct err *err) {
    size_t at = row_place(b, ahead);
    memset(row->touched, 0, row->n / 8);
    for (size_t i = 0; i < row->n; i++)
        row_set(row, i, sums && i < b->net.n ? sums[i] : SPIKE_NO_INPUT_64);
    if (b->remote && row->wide)
        for (size_t i = 0; i < row->n; i++)
            if (row->touched[i / 32] >> i % 32 & 1)
                ((uint64_t *)row->sums)[i] += (uint64_t)SPIKE_NO_INPUT_64;
    int rc = stream_to_device(b->stream, (char *)b->net.sums + at * row->bytes, row->sums, row->bytes, err);
    if (!rc && b->remote)
        rc = stream_to_device(b->stream, b->net.touched + at * row->n / 32, row->touched, row->n / 8, err);
    return rc ? rc : stream_sync(b->stream, err);
}

static int row_read(struct burst *b, struct row *row, int ahead, int64_t *ret, struct err *err) {
    size_t at = row_place(b, ahead);
    int rc = stream_to_host(b->stream, row->sums, (char *)b->net.sums + at * row->bytes, row->bytes, err);
    if (!rc && b->remote)
        rc = stream_to_host(b->stream, row->touched, b->net.touched + at * row->n / 32, row->n / 8, err);
    if (rc || (rc = stream_sync(b->stream, err)))
        return rc;
    for (size_t i = 0; i < b->net.n; i++)
        ret[i] = row_get(row, b->remote, i);
    return 0;
}

int burst_ring_get(struct burst *b, int64_t *ret, struct err *err) {
    struct row row = {0};
    int rc = row_open(b, b->net.wide_sums, &row, err);
    for (int ahead = 1; !rc && ahead < b->net.delays; ahead++)
        rc = row_read(b, &row, ahead, ret + (size_t)(ahead - 1) * b->net.n, err);
    row_done(&row);
    return rc;
}

int burst_ring_put(struct burst *b, const int64_t *sums, struct err *err) {
    struct row row = {0};
    int rc = row_open(b, b->net.wide_sums, &row, err);
    for (int ahead = 1; !rc && ahead <= b->net.delays; ahead++)
        rc = row_write(b, &row, ahead, sums && ahead < b->net.delays ? sums + (size_t)(ahead - 1) * b->net.n : NULL, err);
    row_done(&row);
    return rc;
}

int burst_device_sums(struct burst *b, struct err *err) {
    bool wide = b->c->net.wide_sums;
    size_t arriving = burst_ring_size(b), n = (size_t)burst_padded(b) * (size_t)b->net.delays;
    OWNED_MEMORY int64_t *under_way = malloc(arriving * sizeof *under_way + 1);
    void *sums = NULL;
    int rc = under_way ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the sums of %u neurons", b->net.n);
    if (rc || (b->net.sums && (rc = burst_ring_get(b, under_way, err))) ||
        (rc = device_alloc(b->device, n * burst_sum_bytes(b->remote, wide), &sums, err)))
        return rc;
    void *was = b->net.sums;
    b->net.sums = sums;
    b->net.wide_sums = wide;
    device_free(b->device, was);
    return burst_ring_put(b, was ? under_way : NULL, err);
}
