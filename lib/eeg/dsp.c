#define DSP_KERNEL_BODY
#include "eeg/dsp.h"

#include <complex.h>

#include "eeg/dsp_kernel.h"
#include "formats/rate.h"

const struct dsp_kernel dsp_kernel_baseline = {.fir = fir, .cascade = cascade};

static const struct dsp_kernel *kernel(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
        return &dsp_kernel_avx512;
    if (__builtin_cpu_supports("avx2"))
        return &dsp_kernel_avx2;
#endif
    return &dsp_kernel_baseline;
}

double *dsp_rows(int64_t rows, int lanes) {
    size_t bytes = (size_t)(rows > 0 ? rows : 1) * (size_t)lanes * sizeof(double);
    double *data = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (data)
        memset(data, 0, bytes);
    return data;
}

/* A section from two poles (a conjugate pair or two real ones) and two real zeros. */
static struct dsp_section section_of(double complex p, double complex q, double z1, double z2) {
    return (struct dsp_section){.b = {1, -(z1 + z2), z1 * z2}, .a = {1, -creal(p + q), creal(p * q)}};
}

int dsp_bandpass(double low_hz, double high_hz, double rate_hz, struct dsp_section ret[3], struct err *err) {
    if (!(low_hz > 0) || !(high_hz > low_hz) || !(high_hz < rate_hz / 2))
        return err_set(err, ERR_INVALID, "band-pass %g..%g Hz at %g Hz; expected 0 < low < high < %g", low_hz, high_hz, rate_hz,
                       rate_hz / 2);
    /* Analogue prototype of order 3 moved to the prewarped band, then the bilinear transform with sampling rate 2. */
    double low = 4 * tan(M_PI * low_hz / rate_hz), high = 4 * tan(M_PI * high_hz / rate_hz), width = high - low;
    double complex prototype[2] = {-1, cexp(I * 2 * M_PI / 3)}, digital[2][2];
    double gain = width * width * width, scale = 1;
    for (int i = 0; i < 2; i++) {
        double complex half = prototype[i] * width / 2, root = csqrt(half * half - low * high);
        double complex analogue[2] = {half + root, half - root};
        for (int k = 0; k < 2; k++) {
            digital[i][k] = (4 + analogue[k]) / (4 - analogue[k]);
            double complex d = 4 - analogue[k];
            scale *= i == 0 ? 1 : creal(d * conj(d)); /* with its conjugate */
            if (i == 0 && k == 1)
                scale *= creal((4 - analogue[0]) * (4 - analogue[1]));
        }
    }
    gain *= 64 / scale; /* three zeros at s = 0 map to z = 1 and bring 4 each */
    bool first_low = fabs(carg(digital[1][0])) < fabs(carg(digital[1][1]));
    ret[0] = section_of(digital[0][0], digital[0][1], 1, -1);
    ret[1] = section_of(digital[1][!first_low], conj(digital[1][!first_low]), 1, 1);
    ret[2] = section_of(digital[1][first_low], conj(digital[1][first_low]), -1, -1);
    for (int k = 0; k < 3; k++)
        ret[0].b[k] *= gain;
    return 0;
}

int dsp_notch(double hz, double q, double rate_hz, struct dsp_section *ret, struct err *err) {
    if (!(hz > 0) || !(hz < rate_hz / 2) || !(q > 0))
        return err_set(err, ERR_INVALID, "notch at %g Hz with Q %g at %g Hz; expected 0 < notch < %g and Q > 0", hz, q, rate_hz,
                       rate_hz / 2);
    double w = 2 * M_PI * hz / rate_hz, gain = 1 / (1 + tan(w / q / 2)), middle = -2 * gain * cos(w);
    *ret = (struct dsp_section){.b = {gain, middle, gain}, .a = {1, middle, 2 * gain - 1}};
    return 0;
}

int dsp_cascade_init(struct dsp_cascade *c, const struct dsp_section *sections, int n_sections, int lanes, struct err *err) {
    if (n_sections < 0 || n_sections > DSP_MAX_SECTIONS)
        return err_set(err, ERR_INVALID, "%d filter sections; expected 0..%d", n_sections, DSP_MAX_SECTIONS);
    *c = (struct dsp_cascade){.n_sections = n_sections, .lanes = lanes};
    if (n_sections)
        memcpy(c->sections, sections, sizeof *sections * (size_t)n_sections);
    c->state = dsp_rows(2 * n_sections, lanes);
    return c->state ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the state of %d filter sections", n_sections);
}

void dsp_cascade_done(struct dsp_cascade *c) {
    free(c->state);
    c->state = NULL;
}

void dsp_cascade_settle(struct dsp_cascade *c, const double *row) {
    for (int lane = 0; lane < c->lanes; lane++) {
        double x = row[lane];
        for (int s = 0; s < c->n_sections; s++) {
            const struct dsp_section *q = &c->sections[s];
            double y = x * ((q->b[0] + q->b[1] + q->b[2]) / (1 + q->a[1] + q->a[2]));
            c->state[(2 * s) * c->lanes + lane] = y - q->b[0] * x;
            c->state[(2 * s + 1) * c->lanes + lane] = q->b[2] * x - q->a[2] * y;
            x = y;
        }
    }
}

void dsp_cascade_run(struct dsp_cascade *c, double *rows, int64_t n) {
    kernel()->cascade(c->sections, c->n_sections, c->state, c->lanes, rows, n);
}

void dsp_cascade_pack(struct dsp_cascade *c, struct packer *p) {
    packed_bytes(p, c->state, sizeof *c->state * (size_t)(2 * c->n_sections * c->lanes));
}

enum { TABLE_MAX_VALUES = 1 << 20, MAX_TAPS = 1 << 16 };

struct resampler {
    int64_t up, down; /* 256/rate in lowest terms */
    int64_t reach;    /* source rows looked at on either side; 0 at 256 Hz */
    int lanes;
    double half, cutoff; /* half length of the kernel in source rows; cut-off as a share of the source's half rate */
    double *table;       /* (up, 2·reach) taps, or NULL when phases are computed one by one */
    double *phase_taps;  /* (2·reach) */
    double *rows;        /* source rows kept, the first one is `base` */
    uint8_t *marks;
    int64_t capacity, base, count; /* absolute number of rows[0]; rows kept, padding included */
    int64_t start, next;           /* first real row; next output */
    int64_t row, phase;            /* next·down = row·up + phase */
    bool started, ended;
};

/* Modified Bessel function of order 0 by its power series. */
static double bessel_i0(double x) {
    double sum = 1, term = 1;
    for (int k = 1; k < 200 && term > sum * 1e-18; k++) {
        term *= x / (2 * k) * (x / (2 * k));
        sum += term;
    }
    return sum;
}

enum { STOP_BAND_DB = 80 };

/* Taps of one phase: rows row−reach+1 … row+reach around the time row + phase/up. */
static void make_phase(const struct resampler *r, int64_t phase, double *taps) {
    const double beta = 0.1102 * (STOP_BAND_DB - 8.7), floor_i0 = bessel_i0(beta);
    double sum = 0;
    for (int64_t t = 0; t < 2 * r->reach; t++) {
        double tau = (double)(t - r->reach + 1) - (double)phase / (double)r->up, u = tau / r->half, tap = 0;
        if (fabs(u) <= 1) {
            double angle = M_PI * r->cutoff * tau;
            tap = (fabs(angle) < 1e-12 ? 1 : sin(angle) / angle) * bessel_i0(beta * sqrt(1 - u * u)) / floor_i0;
        }
        taps[t] = tap;
        sum += tap;
    }
    for (int64_t t = 0; t < 2 * r->reach; t++)
        taps[t] /= sum;
}

/* rate as p/q by continued fractions; false when no fraction with small terms is near enough. */
static bool rational(double rate, int64_t *ret_p, int64_t *ret_q) {
    double x = rate;
    int64_t p0 = 1, q0 = 0, p1 = (int64_t)floor(rate), q1 = 1;
    for (int i = 0; i < 40; i++) {
        if (fabs((double)p1 / (double)q1 - rate) <= 1e-10 * rate) {
            *ret_p = p1;
            *ret_q = q1;
            return true;
        }
        x = 1 / (x - floor(x));
        if (!(x < RATE_MOST_NUM))
            return false;
        int64_t a = (int64_t)floor(x), p2 = a * p1 + p0, q2 = a * q1 + q0;
        if (p2 > RATE_MOST_NUM || q2 > RATE_MOST_DEN)
            return false;
        p0 = p1;
        q0 = q1;
        p1 = p2;
        q1 = q2;
    }
    return false;
}

int dsp_ratio(double rate_hz, int64_t *ret_up, int64_t *ret_down, struct err *err) {
    int64_t p, q;
    if (!(rate_hz >= 1) || !(rate_hz <= 65536) || !rational(rate_hz, &p, &q))
        return err_set(err, ERR_INVALID, "sampling rate %.17g Hz; expected a rational rate from 1 to 65536 Hz", rate_hz);
    int64_t common = rate_divisor(DSP_RATE_HZ * q, p);
    *ret_up = DSP_RATE_HZ * q / common;
    *ret_down = p / common;
    return 0;
}

/* The kernel of a rate whose ratio is known. */
static void shape(struct resampler *r, double rate_hz) {
    if (r->up == r->down)
        return;
    double lower = rate_hz < DSP_RATE_HZ ? rate_hz : DSP_RATE_HZ;
    r->cutoff = lower / rate_hz;
    r->half = (STOP_BAND_DB - 7.95) / (2.285 * 2 * M_PI * (lower / 16) / rate_hz) / 2;
    r->reach = (int64_t)floor(r->half) + 1;
}

static bool is_tabled(const struct resampler *r) { return r->reach > 0 && r->up * 2 * r->reach <= TABLE_MAX_VALUES; }

enum { MEASURED_TAPS = 1024, MEASURED_LANES = 16, MEASUREMENTS = 5 };
static double tap_s, product_s; /* to compute a tap, and to multiply and add a sample */
static pthread_once_t measured = PTHREAD_ONCE_INIT;

static double thread_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The shortest of a few measurements, each of less than a millisecond. */
static void measure(void) {
    struct resampler r = {.up = 3, .down = 7, .reach = MEASURED_TAPS / 2, .half = MEASURED_TAPS / 2 - 0.5, .cutoff = 0.1};
    static _Alignas(64) double taps[MEASURED_TAPS], rows[MEASURED_TAPS * MEASURED_LANES], out[MEASURED_LANES];
    tap_s = product_s = INFINITY;
    for (int i = 0; i < MEASUREMENTS; i++) {
        const double begin = thread_s();
        make_phase(&r, i % 3, taps);
        const double middle = thread_s();
        for (int k = 0; k < MEASURED_LANES; k++)
            kernel()->fir(taps, MEASURED_TAPS, rows, MEASURED_LANES, out);
        tap_s = fmin(tap_s, (middle - begin) / MEASURED_TAPS);
        product_s = fmin(product_s, (thread_s() - middle) / (MEASURED_TAPS * MEASURED_LANES * MEASURED_LANES));
    }
}

double dsp_cost(double rate_hz, int lanes) {
    struct resampler r = {0};
    if (dsp_ratio(rate_hz, &r.up, &r.down, NULL))
        return INFINITY;
    shape(&r, rate_hz);
    pthread_once(&measured, measure);
    return 2.0 * (double)r.reach * DSP_RATE_HZ * ((is_tabled(&r) ? 0 : tap_s) + product_s * lanes);
}

int resampler_new(double rate_hz, int lanes, struct resampler **ret, struct err *err) {
    int64_t up, down;
    int rc = dsp_ratio(rate_hz, &up, &down, err);
    if (rc)
        return rc;
    struct resampler *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a resampler");
    r->up = up;
    r->down = down;
    r->lanes = lanes;
    shape(r, rate_hz);
    int64_t taps = 2 * r->reach;
    r->capacity = 2 * (taps + DSP_BLOCK + 1);
    r->rows = dsp_rows(r->capacity, lanes);
    r->marks = calloc((size_t)r->capacity, 1);
    r->phase_taps = calloc((size_t)taps + 1, sizeof(double));
    bool tabled = is_tabled(r);
    if (tabled)
        r->table = malloc((size_t)(r->up * taps) * sizeof(double));
    if (!r->rows || !r->marks || !r->phase_taps || (tabled && !r->table)) {
        resampler_free(r);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a resampler from %g Hz", rate_hz);
    }
    for (int64_t phase = 0; tabled && phase < r->up; phase++)
        make_phase(r, phase, r->table + phase * taps);
    *ret = r;
    return 0;
}

void resampler_free(struct resampler *r) {
    if (!r)
        return;
    FREE_MEMBERS(*r, rows, marks, phase_taps, table);
    free(r);
}

void resampler_start(struct resampler *r, int64_t first) {
    r->start = first;
    r->base = first - r->reach;
    r->count = 0;
    r->next = (int64_t)(((__int128)first * r->up + r->down - 1) / r->down);
    __int128 position = (__int128)r->next * r->down;
    r->row = (int64_t)(position / r->up);
    r->phase = (int64_t)(position % r->up);
    r->started = false;
    r->ended = false;
}

/* How many of the rows no later output looks at. */
static int64_t used_rows(const struct resampler *r) {
    const int64_t gone = r->row - (r->reach ? r->reach - 1 : 0) - r->base;
    return gone < 0 ? 0 : gone > r->count ? r->count : gone;
}

/* Drops them. Capacity is twice the reach and a block, so room for either appears. */
static void trim(struct resampler *r) {
    const int64_t gone = used_rows(r);
    memmove(r->rows, r->rows + gone * r->lanes, sizeof *r->rows * (size_t)((r->count - gone) * r->lanes));
    memmove(r->marks, r->marks + gone, (size_t)(r->count - gone));
    r->base += gone;
    r->count -= gone;
}

/* Append one row n times. */
static void append_held(struct resampler *r, const double *row, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        memcpy(r->rows + (r->count + i) * r->lanes, row, sizeof *row * (size_t)r->lanes);
        r->marks[r->count + i] = 0;
    }
    r->count += n;
}

void resampler_push(struct resampler *r, const double *rows, int64_t n, bool mark) {
    if (n <= 0)
        return;
    if (!r->started)
        append_held(r, rows, r->reach);
    r->started = true;
    if (r->count + n > r->capacity)
        trim(r);
    memcpy(r->rows + r->count * r->lanes, rows, sizeof *rows * (size_t)(n * r->lanes));
    memset(r->marks + r->count, mark, (size_t)n);
    r->count += n;
}

bool resampler_pass(struct resampler *r, int64_t n, int64_t *ret_first) {
    if (r->reach)
        return false;
    *ret_first = r->next;
    r->started = true;
    r->next += n;
    r->row += n;
    r->base = r->row;
    r->count = 0;
    return true;
}

void resampler_end(struct resampler *r) { r->ended = true; }

static void advance(struct resampler *r) {
    r->next++;
    r->phase += r->down;
    r->row += r->phase / r->up;
    r->phase %= r->up;
}

/* At the model's own rate: rows as they are. */
static int64_t pull_same(struct resampler *r, double *rows, uint8_t *marks, int64_t max) {
    const int64_t at = r->row - r->base, n = r->count - at < max ? r->count - at : max;
    memcpy(rows, r->rows + at * r->lanes, sizeof *rows * (size_t)(n * r->lanes));
    memcpy(marks, r->marks + at, (size_t)n);
    r->next += n;
    r->row += n;
    return n;
}

int64_t resampler_pull(struct resampler *r, double *rows, uint8_t *marks, int64_t max, int64_t *ret_first) {
    *ret_first = r->next;
    if (!r->started)
        return 0;
    if (!r->reach)
        return pull_same(r, rows, marks, max);
    int64_t n = 0, end = r->base + r->count, real_end = end; /* one past the last real row */
    const struct dsp_kernel *k = kernel();
    if (r->ended) {
        if (r->count + r->reach > r->capacity)
            trim(r);
        const double *last = r->rows + (r->count - 1) * r->lanes;
        append_held(r, last, r->reach);
        end += r->reach;
    }
    for (; n < max && r->row < real_end && r->row + r->reach < end; n++) {
        int64_t at = r->row - r->base;
        const double *taps = r->phase_taps;
        if (r->table)
            taps = r->table + r->phase * 2 * r->reach;
        else
            make_phase(r, r->phase, r->phase_taps);
        k->fir(taps, 2 * r->reach, r->rows + (at - r->reach + 1) * r->lanes, r->lanes, rows + n * r->lanes);
        marks[n] = r->marks[at];
        advance(r);
    }
    if (r->ended)
        r->count -= r->reach; /* the tail is appended anew by the next pull */
    return n;
}

void resampler_pack(struct resampler *r, struct packer *p) {
    const int64_t gone = p->to ? used_rows(r) : 0;
    int64_t base = r->base + gone, left = r->count - gone;
    PACKED(p, r->start, -PACKED_FAR, PACKED_FAR);
    PACKED(p, r->next, -PACKED_FAR, PACKED_FAR);
    PACKED(p, r->row, -PACKED_FAR, PACKED_FAR);
    PACKED(p, r->phase, 0, r->up - 1);
    PACKED_MEMBERS(p, *r, started, ended);
    PACKED(p, base, -PACKED_FAR, PACKED_FAR);
    PACKED(p, left, 0, r->capacity);
    packed_bytes(p, r->rows + gone * r->lanes, sizeof *r->rows * (size_t)(left * r->lanes));
    packed_bytes(p, r->marks + gone, (size_t)left);
    if (p->to)
        return;
    r->base = base;
    r->count = left;
    /* An output reads the rows from row - reach + 1 on. */
    packed_require(p, !r->started || r->row - r->base >= (r->reach ? r->reach - 1 : 0));
}
