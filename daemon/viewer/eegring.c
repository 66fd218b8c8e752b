/* The writer announces how far it will write (claim), writes, and then publishes (next). A reader copies and then looks at claim:
 * what lies a capacity behind it may be of a later lap. Samples are stored with release and loaded with acquire order, so that a
 * reader that saw a sample of a later lap also sees its claim. A minute of an alarm is used again after EEGRING_PINS alarms: its
 * new start is stored before its samples, and what lies before the start is no longer valid. */
#include "daemon/viewer/eegring.h"

#include "base/clones.h"
#include "base/grow.h"
#include "base/principal.h"
#include "eeg/frontend.h"

enum { PUT_BLOCK = 64, OWNERS = 1024 };

/* Samples of all rows and probabilities of [start, …), at index modulo capacity. */
struct strip {
    int64_t capacity;
    _Atomic int64_t start, claim, next; /* start: of a minute; 0 for the ring */
    _Atomic int16_t *samples, *p;       /* (rows, capacity), (capacity / EEGRING_P_STEP) */
};
struct slot {
    _Atomic int64_t kind, first, end, wall_ms;
};
/* Samples of some rows that are held. */
struct held_samples {
    uint64_t rows;
    int64_t first, end;
};
struct eegring {
    atomic_int references, mentions; /* all references are together one mention */
    const char *const *names;
    int rows;
    _Atomic int64_t bytes;
    struct eegring_limits limits;
    struct strip ring, pins[EEGRING_PINS]; /* a pin has memory from its first alarm on */
    _Atomic int64_t n_pins, n_marks;       /* that were ever made */
    _Atomic int64_t wall_ms;
    struct slot marks[EEGRING_MARKS];
    /* of the process before: constant once n_past is not 0 */
    _Atomic int n_past;
    struct strip past[EEGRING_PINS];
    struct eegring_mark past_marks[EEGRING_MARKS];
    int n_past_marks;
    int64_t past_wall_ms;
    _Atomic int64_t saved;
    /* the writer's */
    int64_t started;           /* its first sample; -1: none yet */
    struct held_samples *held; /* ascending; the next one that is looked at, how many there are, and room */
    int next_held, n_held, held_room;
    double in[FRONTEND_MAX_CHANNELS], out[FRONTEND_MAX_CHANNELS];
};

static _Atomic int64_t kept_bytes, kept_of[OWNERS]; /* of all rings of the process, and of each owner's */

int64_t eegring_bytes(void) { return atomic_load(&kept_bytes); }

static int64_t strip_bytes(int rows, int64_t capacity) { return (capacity * rows + capacity / EEGRING_P_STEP) * 2; }

/* Counts bytes of the ring; returns whether there is room for so many. */
static bool count_bytes(const struct eegring *r, int64_t bytes) {
    const int64_t all = atomic_fetch_add(&kept_bytes, bytes) + bytes,
                  own = atomic_fetch_add(&kept_of[r->limits.owner % OWNERS], bytes) + bytes, most = r->limits.max_bytes;
    return all <= most && own <= principal_share(most, r->limits.shared);
}

/* False: the strips of all rings, or of this owner's, may not take so much, or memory is out. */
static bool strip_open(struct eegring *r, struct strip *s, int64_t capacity) {
    const int64_t bytes = strip_bytes(r->rows, capacity);
    if (count_bytes(r, bytes) &&
        (s->samples = calloc((size_t)(capacity * r->rows + capacity / EEGRING_P_STEP), sizeof *s->samples))) {
        s->p = s->samples + capacity * r->rows;
        for (int64_t i = 0; i < capacity / EEGRING_P_STEP; i++)
            atomic_init(&s->p[i], EEGRING_NONE);
        s->capacity = capacity;
        atomic_fetch_add(&r->bytes, bytes);
        return true;
    }
    (void)count_bytes(r, -bytes);
    return false;
}

static int open_ring(struct eegring *r, const char *montage, const struct eegring_limits *limits, struct err *err) {
    int rc;
    r->limits = *limits;
    if ((rc = montage_channels(montage, &r->names, &r->rows, err)))
        return rc;
    if (!strip_open(r, &r->ring, (limits->samples + EEGRING_P_STEP - 1) / EEGRING_P_STEP * EEGRING_P_STEP))
        return err_set(err, ERR_EXHAUSTED, "the EEG of other streams takes the room of viewer.memory");
    return 0;
}

int eegring_new(const char *montage, const struct eegring_limits *limits, struct eegring **ret, struct err *err) {
    if (!limits->samples)
        return err_set(err, ERR_UNSUPPORTED, "viewer.minutes is 0");
    struct eegring *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for EEG");
    atomic_init(&r->references, 1);
    atomic_init(&r->mentions, 1);
    r->started = -1;
    int rc = open_ring(r, montage, limits, err);
    return GIVEN(ret, r, eegring_drop, rc);
}

struct eegring *eegring_share(struct eegring *r) {
    if (r)
        atomic_fetch_add(&r->references, 1);
    return r;
}

struct eegring *eegring_mention(struct eegring *r) {
    if (r)
        atomic_fetch_add(&r->mentions, 1);
    return r;
}

void eegring_unmention(struct eegring *r) {
    if (r && atomic_fetch_sub(&r->mentions, 1) == 1)
        free(r);
}

bool eegring_hold(struct eegring *r) {
    int n = atomic_load(&r->references);
    while (n > 0 && !atomic_compare_exchange_weak(&r->references, &n, n + 1)) {
    }
    return n > 0;
}

void eegring_drop(struct eegring *r) {
    if (!r || atomic_fetch_sub(&r->references, 1) > 1)
        return;
    (void)count_bytes(r, -atomic_load(&r->bytes));
    free((void *)r->ring.samples);
    for (int i = 0; i < EEGRING_PINS; i++) {
        free((void *)r->pins[i].samples);
        free((void *)r->past[i].samples);
    }
    free(r->held);
    montage_channels_free(r->names);
    eegring_unmention(r);
}

/* ---- the writer ---- */

static void put_sample(_Atomic int16_t *at, int16_t value) { atomic_store_explicit(at, value, memory_order_release); }
static int16_t get_sample(const _Atomic int16_t *at) { return atomic_load_explicit(at, memory_order_acquire); }

/* One sample of all rows without drift: a high-pass of one pole at 0.1 Hz that begins at the first sample. Rounds as lrint does. */
CLONES static void without_drift(double *restrict in, double *restrict out, const double *restrict uv, int rows,
                                 int16_t *restrict to) {
    static const double POLE = 1 - 2 * 3.14159265358979 * 0.1 / FRONTEND_RATE_HZ;
#pragma omp simd
    for (int row = 0; row < rows; row++) {
        out[row] = uv[row] - in[row] + POLE * out[row];
        in[row] = uv[row];
        double units = out[row] / EEGRING_UV;
        units = units > INT16_MAX ? INT16_MAX : units;
        units = units < EEGRING_LOWEST ? EEGRING_LOWEST : units;
        to[row] = (int16_t)(int32_t)(units + 0x1.8p52 - 0x1.8p52);
    }
}

/* Samples [first, end) of a strip are about to be written: their probabilities are unknown yet. */
static void strip_claim(struct strip *s, int64_t first, int64_t end) {
    atomic_store(&s->claim, end);
    for (int64_t step = (first + EEGRING_P_STEP - 1) / EEGRING_P_STEP; step * EEGRING_P_STEP < end; step++)
        put_sample(&s->p[step % (s->capacity / EEGRING_P_STEP)], EEGRING_NONE);
}

static void strip_skip(struct eegring *r, struct strip *s, int64_t end) {
    const int64_t next = atomic_load(&s->next), first = end - next > s->capacity ? end - s->capacity : next;
    strip_claim(s, first, end);
    for (int row = 0; row < r->rows; row++)
        for (int64_t i = first; i < end; i++)
            put_sample(&s->samples[row * s->capacity + i % s->capacity], EEGRING_NONE);
    atomic_store(&s->next, end);
}

/* The minute of an alarm takes its part of the ring's newest samples. */
static void pin_follow(struct eegring *r, struct strip *pin) {
    const struct strip *ring = &r->ring;
    const int64_t next = atomic_load(&pin->next), last = atomic_load(&pin->start) + pin->capacity,
                  newest = atomic_load(&ring->next), end = newest < last ? newest : last;
    if (!pin->samples || next >= end)
        return;
    strip_claim(pin, next, end);
    for (int row = 0; row < r->rows; row++)
        for (int64_t i = next; i < end; i++)
            put_sample(&pin->samples[row * pin->capacity + i % pin->capacity],
                       i < newest - ring->capacity ? EEGRING_NONE
                                                   : get_sample(&ring->samples[row * ring->capacity + i % ring->capacity]));
    atomic_store(&pin->next, end);
}

bool eegring_hold_rows(struct eegring *r, uint64_t rows, int64_t first, int64_t end) {
    if (first >= end)
        return true;
    if (!GROW(r->held, r->n_held, r->held_room))
        return false;
    r->held[r->n_held++] = (struct held_samples){rows, first, end};
    return true;
}

/* Marks the held ones among the samples [first, end) of the ring, which are not published yet. */
static void put_held(struct eegring *r, int64_t first, int64_t end) {
    const struct strip *s = &r->ring;
    for (; r->next_held < r->n_held && r->held[r->next_held].first < end; r->next_held++) {
        const struct held_samples h = r->held[r->next_held];
        const int64_t last = h.end < end ? h.end : end;
        for (int row = 0; row < r->rows; row++)
            for (int64_t i = h.first > first ? h.first : first; h.rows >> row & 1 && i < last; i++)
                put_sample(&s->samples[row * s->capacity + i % s->capacity], EEGRING_HELD);
        if (h.end > end)
            return; /* its next samples are put next */
    }
    if (r->next_held == r->n_held)
        r->next_held = r->n_held = 0;
}

/* n ≤ PUT_BLOCK samples. */
static void put_block(struct eegring *r, const double *uv, int stride, int64_t n, int64_t first, const uint8_t *held) {
    int16_t values[PUT_BLOCK * FRONTEND_MAX_CHANNELS];
    for (int64_t i = 0; i < n; i++)
        without_drift(r->in, r->out, uv + i * stride, r->rows, values + i * r->rows);
    for (int row = 0; row < r->rows; row++) {
        _Atomic int16_t *samples = r->ring.samples + row * r->ring.capacity;
        for (int64_t i = 0, at = first % r->ring.capacity; i < n; i++) {
            put_sample(&samples[at], held && held[i] ? EEGRING_HELD : values[i * r->rows + row]);
            at = at + 1 < r->ring.capacity ? at + 1 : 0;
        }
    }
}

void eegring_put(struct eegring *r, const double *uv, int stride, int64_t n, int64_t first, const uint8_t *held) {
    struct strip *s = &r->ring;
    const bool begins = r->started < 0 || first != atomic_load(&s->next);
    if (r->started < 0) {
        r->started = first;
        atomic_store(&s->start, first);
        atomic_store(&s->next, first);
    } else if (begins) {
        strip_skip(r, s, first);
    }
    strip_claim(s, first, first + n);
    for (int row = 0; begins && row < r->rows; row++) {
        r->in[row] = uv[row];
        r->out[row] = 0;
    }
    for (int64_t i = 0; i < n; i += PUT_BLOCK)
        put_block(r, uv + i * stride, stride, n - i < PUT_BLOCK ? n - i : PUT_BLOCK, first + i, held ? held + i : NULL);
    put_held(r, first, first + n);
    atomic_store(&r->wall_ms, clock_wall_ms());
    atomic_store(&s->next, first + n);
    for (int i = 0; i < EEGRING_PINS; i++)
        pin_follow(r, &r->pins[i]);
}

static void strip_put_p(struct strip *s, int64_t sample, int16_t p) {
    const int64_t next = atomic_load(&s->next), start = atomic_load(&s->start);
    if (!s->samples || sample < start || sample >= next || sample < next - s->capacity)
        return;
    _Atomic int16_t *at = &s->p[sample / EEGRING_P_STEP % (s->capacity / EEGRING_P_STEP)];
    if (p > get_sample(at))
        put_sample(at, p);
}

void eegring_put_p(struct eegring *r, int64_t first, const float *p, int64_t n) {
    for (int64_t i = 0, end; i < n; i = end) {
        float highest = NAN;
        for (end = i; end < n && (first + end) / EEGRING_P_STEP == (first + i) / EEGRING_P_STEP; end++)
            highest = highest >= p[end] ? highest : p[end];
        if (isnan(highest))
            continue;
        strip_put_p(&r->ring, first + i, (int16_t)lrintf(highest * 1000));
        for (int k = 0; k < EEGRING_PINS; k++)
            strip_put_p(&r->pins[k], first + i, (int16_t)lrintf(highest * 1000));
    }
}

/* The minute of the oldest kept alarm makes room for that of the newest. */
static void pin_begin(struct eegring *r, int64_t alarm) {
    const int64_t n = atomic_load(&r->n_pins), oldest = atomic_load(&r->ring.next) - r->ring.capacity;
    struct strip *pin = &r->pins[n % EEGRING_PINS];
    int64_t first = alarm - EEGRING_PIN_BEFORE;
    if (!pin->samples && !strip_open(r, pin, EEGRING_PIN))
        return;
    first = first < r->started ? r->started : first;
    first = ((first < oldest ? oldest : first) + EEGRING_P_STEP - 1) / EEGRING_P_STEP * EEGRING_P_STEP;
    atomic_store(&pin->start, first);
    atomic_store(&pin->next, first);
    pin_follow(r, pin);
    for (int64_t step = first / EEGRING_P_STEP; step * EEGRING_P_STEP < atomic_load(&pin->next); step++)
        put_sample(&pin->p[step % (pin->capacity / EEGRING_P_STEP)],
                   get_sample(&r->ring.p[step % (r->ring.capacity / EEGRING_P_STEP)]));
    atomic_store(&r->n_pins, n + 1);
}

void eegring_put_mark(struct eegring *r, const struct eegring_mark *m) {
    const int64_t n = atomic_load(&r->n_marks);
    struct slot *at = &r->marks[n % EEGRING_MARKS];
    atomic_store(&at->kind, (int64_t)m->kind);
    atomic_store(&at->first, m->first);
    atomic_store(&at->end, m->end);
    atomic_store(&at->wall_ms, m->wall_ms);
    atomic_store(&r->n_marks, n + 1);
    if (m->kind == EEGRING_ALARM_ON && r->started >= 0)
        pin_begin(r, m->first);
}

/* ---- readers ---- */

int eegring_rows(const struct eegring *r, const char *const **ret_names) {
    *ret_names = r->names;
    return r->rows;
}

static struct eegring_span strip_span(const struct strip *s) {
    struct eegring_span span = {.first = atomic_load(&s->start), .end = atomic_load(&s->next)};
    if (span.end < span.first) /* the strip was begun anew between the two */
        span.end = span.first;
    if (span.end - span.first > s->capacity)
        span.first = span.end - s->capacity;
    return span;
}

void eegring_describe(const struct eegring *r, struct eegring_state *ret) {
    const int64_t n = atomic_load(&r->n_pins), first = n > EEGRING_PINS ? n - EEGRING_PINS : 0;
    const int past = atomic_load(&r->n_past);
    *ret = (struct eegring_state){.newest_wall_ms = atomic_load(&r->wall_ms), .kept = strip_span(&r->ring)};
    for (int i = past + (int)(n - first) > EEGRING_PINS ? past + (int)(n - first) - EEGRING_PINS : 0; i < past; i++)
        ret->pins[ret->n_pins++] = strip_span(&r->past[i]);
    if (!ret->newest_wall_ms && ret->n_pins) { /* nothing came since the restart */
        ret->newest_wall_ms = r->past_wall_ms;
        ret->kept.first = ret->kept.end = ret->pins[ret->n_pins - 1].end;
    }
    for (int64_t i = first; i < n; i++)
        ret->pins[ret->n_pins++] = strip_span(&r->pins[i % EEGRING_PINS]);
}

/* Values of one row of a strip, one for `step` samples; what was overwritten meanwhile is EEGRING_NONE. */
static void copy_strip(const struct strip *s, const _Atomic int16_t *row, int64_t step, struct eegring_span want, int16_t *ret) {
    const struct eegring_span has = strip_span(s);
    const int64_t capacity = s->capacity / step,
                  end = (has.end + step - 1) / step < want.end ? (has.end + step - 1) / step : want.end;
    const int64_t first = has.first / step > want.first ? has.first / step : want.first;
    for (int64_t i = first, at = capacity ? first % capacity : 0; i < end; i++) {
        ret[i - want.first] = get_sample(&row[at]);
        at = at + 1 < capacity ? at + 1 : 0;
    }
    const int64_t start = atomic_load(&s->start), lap = atomic_load(&s->claim) - s->capacity;
    for (int64_t i = first; i < end && i * step < (start > lap ? start : lap); i++)
        ret[i - want.first] = EEGRING_NONE;
}

/* From the ring; what it no longer has, from the minutes of alarms. row -1: the probabilities. */
static void copy_kept(const struct eegring *r, int row, int64_t step, int64_t first, int64_t n, int16_t *ret) {
    const struct eegring_span want = {first, first + n};
    const int64_t pins = atomic_load(&r->n_pins), kept = strip_span(&r->ring).first / step;
    const int past = atomic_load(&r->n_past);
    for (int64_t i = 0; i < n; i++)
        ret[i] = EEGRING_NONE;
    for (int i = 0; i < past; i++)
        copy_strip(&r->past[i], row < 0 ? r->past[i].p : r->past[i].samples + row * r->past[i].capacity, step, want, ret);
    for (int64_t i = pins > EEGRING_PINS ? pins - EEGRING_PINS : 0; i < pins && first < kept; i++) {
        const struct strip *pin = &r->pins[i % EEGRING_PINS];
        copy_strip(pin, row < 0 ? pin->p : pin->samples + row * pin->capacity, step, want, ret);
    }
    copy_strip(&r->ring, row < 0 ? r->ring.p : r->ring.samples + row * r->ring.capacity, step, want, ret);
}

void eegring_copy(const struct eegring *r, int row, int64_t first, int64_t n, int16_t *ret) { copy_kept(r, row, 1, first, n, ret); }

void eegring_copy_p(const struct eegring *r, int64_t first, int64_t n, int16_t *ret) {
    copy_kept(r, -1, EEGRING_P_STEP, first, n, ret);
}

/* Copies the marks that this process has set; returns how many. */
static int own_marks(const struct eegring *r, struct eegring_mark ret[EEGRING_MARKS]) {
    const int64_t n = atomic_load(&r->n_marks), first = n >= EEGRING_MARKS ? n - EEGRING_MARKS + 1 : 0;
    int kept = 0;
    for (int64_t i = first; i < n; i++) {
        const struct slot *at = &r->marks[i % EEGRING_MARKS];
        ret[kept] = (struct eegring_mark){.kind = (enum eegring_kind)atomic_load(&at->kind),
                                          .first = atomic_load(&at->first),
                                          .end = atomic_load(&at->end),
                                          .wall_ms = atomic_load(&at->wall_ms)};
        kept += atomic_load(&r->n_marks) <= i + EEGRING_MARKS - 1;
    }
    return kept;
}

int eegring_marks(const struct eegring *r, struct eegring_mark ret[EEGRING_MARKS]) {
    struct eegring_mark own[EEGRING_MARKS];
    const int n = own_marks(r, own), past = atomic_load(&r->n_past) ? r->n_past_marks : 0;
    int kept = 0;
    for (int i = past + n > EEGRING_MARKS ? past + n - EEGRING_MARKS : 0; i < past; i++)
        ret[kept++] = r->past_marks[i];
    for (int i = 0; i < n && kept < EEGRING_MARKS; i++)
        ret[kept++] = own[i];
    return kept;
}

/* ---- across a restart ---- */

enum { SAVED_VERSION = 1 };
static const int64_t FARTHEST = INT64_C(1) << 60;

int64_t eegring_saved(const struct eegring *r) { return atomic_load(&r->saved); }
void eegring_set_saved(struct eegring *r, int64_t pinned) { atomic_store(&r->saved, pinned); }

int64_t eegring_pinned(const struct eegring *r) {
    struct eegring_state s;
    int64_t sum = 0;
    eegring_describe(r, &s);
    for (int i = 0; i < s.n_pins; i++)
        sum = 31 * sum + s.pins[i].first + (s.pins[i].end - s.pins[i].first) / EEGRING_SAVE_STEP + 1;
    return sum & INT64_MAX;
}

static void save_minute(const struct eegring *r, struct eegring_span span, int16_t *room, struct str *out) {
    const int64_t n = span.end - span.first;
    pack_i64(out, span.first);
    pack_i64(out, n);
    for (int row = 0; row < r->rows; row++) {
        eegring_copy(r, row, span.first, n, room);
        pack_bytes(out, room, (size_t)n * sizeof *room);
    }
    eegring_copy_p(r, span.first / EEGRING_P_STEP, EEGRING_PIN / EEGRING_P_STEP, room);
    pack_bytes(out, room, EEGRING_PIN / EEGRING_P_STEP * sizeof *room);
}

bool eegring_save(const struct eegring *r, struct str *out) {
    struct eegring_state s;
    struct eegring_mark marks[EEGRING_MARKS];
    OWNED_MEMORY int16_t *room = malloc(EEGRING_PIN * sizeof *room);
    const int n = eegring_marks(r, marks);
    if (!room)
        return false;
    eegring_describe(r, &s);
    pack_i64(out, SAVED_VERSION);
    pack_i64(out, r->rows);
    pack_i64(out, s.newest_wall_ms);
    pack_i64(out, n);
    for (int i = 0; i < n; i++)
        PACK(out, marks[i], kind, first, end, wall_ms);
    pack_i64(out, s.n_pins);
    for (int i = 0; i < s.n_pins; i++)
        save_minute(r, s.pins[i], room, out);
    return str_ok(out);
}

/* n values from index `first` on, modulo capacity. */
static void load_values(struct unpack *in, int64_t first, int64_t n, int64_t capacity, _Atomic int16_t *ret) {
    for (int64_t i = 0, len = unpack_i64(in, n * 2, n * 2) / 2; i < len && !in->failed; i++) {
        int16_t value = EEGRING_NONE;
        if (in->left < sizeof value) {
            in->failed = true;
            return;
        }
        memcpy(&value, in->at, sizeof value);
        in->at += sizeof value;
        in->left -= sizeof value;
        put_sample(&ret[(first + i) % capacity], value);
    }
}

static int load_minute(struct eegring *r, struct unpack *in, struct strip *s, struct err *err) {
    const int64_t first = unpack_i64(in, 0, FARTHEST), n = unpack_i64(in, 0, EEGRING_PIN), steps = EEGRING_PIN / EEGRING_P_STEP;
    unpack_require(in, first % EEGRING_P_STEP == 0);
    if (in->failed)
        return 0;
    if (!strip_open(r, s, EEGRING_PIN))
        return err_set(err, ERR_EXHAUSTED, "the EEG of other streams takes the room of viewer.memory");
    for (int row = 0; row < r->rows; row++)
        load_values(in, first, n, s->capacity, s->samples + row * s->capacity);
    load_values(in, first / EEGRING_P_STEP, steps, steps, s->p);
    atomic_store(&s->start, first);
    atomic_store(&s->claim, first + n);
    atomic_store(&s->next, first + n);
    return 0;
}

int eegring_inherit(struct eegring *r, const void *data, size_t len, struct err *err) {
    struct unpack in = unpack_of(data, len);
    unpack_same(&in, SAVED_VERSION);
    unpack_same(&in, r->rows);
    r->past_wall_ms = unpack_i64(&in, 0, INT64_MAX);
    r->n_past_marks = (int)unpack_i64(&in, 0, EEGRING_MARKS);
    for (int i = 0; i < r->n_past_marks; i++) {
        struct eegring_mark *m = &r->past_marks[i];
        m->kind = (enum eegring_kind)unpack_i64(&in, EEGRING_ALARM_ON, EEGRING_EVENT);
        m->first = unpack_i64(&in, 0, FARTHEST);
        m->end = unpack_i64(&in, 0, FARTHEST);
        m->wall_ms = unpack_i64(&in, 0, INT64_MAX);
    }
    const int n = (int)unpack_i64(&in, 0, EEGRING_PINS);
    for (int i = 0; i < n; i++) {
        int rc = load_minute(r, &in, &r->past[i], err);
        if (rc)
            return rc;
    }
    if (!unpack_done(&in))
        return err_set(err, ERR_DATA_LOSS, "the EEG that was kept is corrupt or of another montage");
    atomic_store(&r->n_past, n);
    return 0;
}
