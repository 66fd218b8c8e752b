#include "eeg/quality.h"

#include "base/clones.h"
#include "formats/unit.h"

enum { RESULT_HZ = 256, CLIPPED_PERCENT = 1, PLATEAU_PERCENT = 10, KINDS = 5 };
static const double FLAT_UV = 0.5, PLATEAU_UV = 100, NOISY_UV = 500;

void quality_put_flaws(struct str *out, int flaws) {
    static const char *const names[] = {"flat", "clipped", "missing", "noisy"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (flaws >> k & 1)
            str_printf(out, " %s", names[k]);
}

const char *quality_note(const struct quality_report *r, int judged) {
    int volts = 0;
    for (int i = 0; i < r->n; i++)
        volts += (r->channels[i].flaws & QUALITY_VOLTS) != 0;
    return 2 * volts > judged ? "the samples look like V, not µV" : "";
}

/* One channel's samples of the second at hand. */
struct second {
    double sum, squares; /* of the differences from the first sample, which keeps them small */
    float first, lowest, highest;
    int64_t n, missing, at_limit, at_lowest, at_highest;
};

/* Record of a complete second: its number, the samples that were lost, then the flaws of each channel. */
struct record {
    int64_t second, lost;
    uint8_t flaws[];
};

struct quality {
    int channels;
    double rate_hz, limit_uv;
    int64_t at; /* the next source sample */
    int64_t lost;
    struct second *now; /* channels */
    float *held;        /* channels: the last finite sample */
    uint8_t *told;      /* channels: flaws of the second at hand, from quality_tell */
    uint8_t *records;   /* n of them, oldest first */
    int64_t n, capacity;
};

static size_t record_size(const struct quality *q) {
    size_t size = sizeof(struct record) + (size_t)q->channels;
    return (size + sizeof(int64_t) - 1) / sizeof(int64_t) * sizeof(int64_t);
}

static struct record *record_at(const struct quality *q, int64_t i) {
    return (struct record *)(void *)(q->records + (size_t)i * record_size(q));
}

/* First source sample of a second, and the second of a sample. */
static int64_t first_of(const struct quality *q, int64_t second) { return (int64_t)ceil((double)second * q->rate_hz); }
static int64_t second_of(const struct quality *q, int64_t sample) {
    int64_t second = (int64_t)floor((double)sample / q->rate_hz);
    while (first_of(q, second) > sample)
        second--;
    while (first_of(q, second + 1) <= sample)
        second++;
    return second;
}

struct quality *quality_new(int channels, double rate_hz, double limit_uv) {
    struct quality *q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->channels = channels;
    q->rate_hz = rate_hz;
    q->limit_uv = limit_uv;
    q->now = calloc((size_t)channels, sizeof *q->now);
    q->held = calloc((size_t)channels, sizeof *q->held);
    q->told = calloc((size_t)channels, sizeof *q->told);
    if (q->now && q->held && q->told)
        return q;
    quality_free(q);
    return NULL;
}

void quality_free(struct quality *q) {
    if (!q)
        return;
    FREE_MEMBERS(*q, now, held, told, records);
    free(q);
}

static int judge(const struct second *s) {
    int flaws = s->missing ? QUALITY_MISSING : 0;
    if (!s->n)
        return flaws;
    const double range = (double)s->highest - (double)s->lowest, mean = s->sum / (double)s->n;
    const double rms = sqrt(fmax(s->squares / (double)s->n - mean * mean, 0));
    if (range < FLAT_UV)
        flaws |= QUALITY_FLAT | (unit_looks_like_volts(rms) ? QUALITY_VOLTS : 0);
    if (s->at_limit * 100 > s->n * CLIPPED_PERCENT ||
        (range > PLATEAU_UV && (s->at_lowest + s->at_highest) * 100 > s->n * PLATEAU_PERCENT))
        flaws |= QUALITY_CLIPPED;
    if (rms > NOISY_UV)
        flaws |= QUALITY_NOISY;
    return flaws;
}

/* What is told counts where the samples show nothing and none is lost. */
static uint8_t with_told(int own, int64_t lost, int told) { return (uint8_t)(own || lost ? own : told); }

/* The second at hand is over. */
static int close_second(struct quality *q, int64_t second, struct err *err) {
    if (q->n == q->capacity) {
        int64_t capacity = 2 * q->capacity + 64;
        uint8_t *more = realloc(q->records, (size_t)capacity * record_size(q));
        if (!more)
            return err_set(err, ERR_EXHAUSTED, "out of memory for the quality of %lld s", (long long)capacity);
        q->records = more;
        q->capacity = capacity;
    }
    struct record *v = record_at(q, q->n++);
    v->second = second;
    v->lost = q->lost;
    for (int c = 0; c < q->channels; c++)
        v->flaws[c] = with_told(judge(&q->now[c]), v->lost, q->told[c]);
    memset(q->now, 0, (size_t)q->channels * sizeof *q->now);
    memset(q->told, 0, (size_t)q->channels);
    q->lost = 0;
    return 0;
}

CLONES static uint32_t greatest(const float *x, int64_t n) {
    uint32_t most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    return most;
}

bool quality_finite(const float *x, int64_t n) { return greatest(x, n) < 0x7f800000; }

static void add(const struct quality *q, struct second *s, float *held, float *x) {
    if (quality_hold(x, held)) {
        s->missing++;
        return;
    }
    if (!s->n) {
        s->first = s->lowest = s->highest = *x;
    }
    if (*x < s->lowest) {
        s->lowest = *x;
        s->at_lowest = 0;
    }
    if (*x > s->highest) {
        s->highest = *x;
        s->at_highest = 0;
    }
    double d = (double)*x - (double)s->first;
    s->n++;
    s->sum += d;
    s->squares += d * d;
    s->at_lowest += *x <= s->lowest;
    s->at_highest += *x >= s->highest;
    s->at_limit += fabs((double)*x) >= q->limit_uv;
}

int quality_push(struct quality *q, float *const *uv, int64_t n, struct err *err) {
    int rc;
    for (int64_t done = 0; done < n;) {
        int64_t second = second_of(q, q->at), left = first_of(q, second + 1) - q->at;
        int64_t part = n - done < left ? n - done : left;
        for (int c = 0; c < q->channels; c++) {
            struct second now = q->now[c]; /* in registers */
            float held = q->held[c];
            for (int64_t i = done; i < done + part; i++)
                add(q, &now, &held, &uv[c][i]);
            q->now[c] = now;
            q->held[c] = held;
        }
        q->at += part;
        done += part;
        if (part == left && (rc = close_second(q, second, err)))
            return rc;
    }
    return 0;
}

/* Seconds that lie in a gap as a whole leave nothing: a gap may last a day. */
int quality_gap(struct quality *q, int64_t missing, struct err *err) {
    int64_t second = second_of(q, q->at), end = first_of(q, second + 1), to = q->at + missing;
    int rc = 0;
    if (to >= end) {
        q->lost += end - q->at;
        rc = close_second(q, second, err);
        q->at = first_of(q, second_of(q, to));
    }
    q->lost += to - q->at;
    q->at = to;
    return rc;
}

void quality_tell(struct quality *q, int64_t end, int channel, int flaws) {
    const int64_t second = (end - 1) / RESULT_HZ;
    int64_t i = q->n;
    while (i > 0 && record_at(q, i - 1)->second > second)
        i--;
    struct record *v = i > 0 && record_at(q, i - 1)->second == second ? record_at(q, i - 1) : NULL;
    if (v)
        v->flaws[channel] = with_told(v->flaws[channel], v->lost, flaws);
    else if (second == second_of(q, q->at))
        q->told[channel] = (uint8_t)flaws;
}

/* Flaws of a channel over n seconds in which each kind was seen so often. */
static int gather(const int64_t seen[KINDS], int64_t n) {
    int flaws = n && seen[0] == n ? QUALITY_FLAT : 0;
    flaws |= n && seen[4] == n ? QUALITY_VOLTS : 0;
    flaws |= seen[1] ? QUALITY_CLIPPED : 0;
    flaws |= seen[2] ? QUALITY_MISSING : 0;
    return flaws | (seen[3] && 2 * seen[3] >= n ? QUALITY_NOISY : 0);
}

int quality_take(struct quality *q, int64_t first, int64_t end, struct quality_report *ret, struct err *err) {
    int64_t from = first / RESULT_HZ, to = end / RESULT_HZ, here = 0, lost = 0, past = 0;
    struct quality_report report = {0};
    if (to <= from) {
        *ret = report;
        return 0;
    }
    int64_t present = second_of(q, q->at);
    if (present < to && q->at > first_of(q, present)) { /* the source has ended in it */
        int rc = close_second(q, present, err);
        if (rc)
            return rc;
    }
    if (!(report.channels = malloc((size_t)q->channels * sizeof *report.channels)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the quality of a result");
    while (past < q->n && record_at(q, past)->second < from)
        past++;
    int64_t begin = past;
    for (; past < q->n && record_at(q, past)->second < to; past++, here++)
        lost += record_at(q, past)->lost;
    for (int c = 0; c < q->channels; c++) {
        int64_t seen[KINDS] = {0};
        for (int64_t i = begin; i < past; i++)
            for (int k = 0; k < KINDS; k++)
                seen[k] += record_at(q, i)->flaws[c] >> k & 1;
        int flaws = gather(seen, here);
        if (flaws)
            report.channels[report.n++] = (struct quality_channel){c, flaws};
    }
    double absent = (double)(to - from - here) * q->rate_hz;
    report.gap_fraction = ((double)lost + absent) / (double)(first_of(q, to) - first_of(q, from));
    q->n -= past;
    memmove(q->records, record_at(q, past), (size_t)q->n * record_size(q));
    if (!report.n) {
        free(report.channels);
        report.channels = NULL;
    }
    *ret = report;
    return 0;
}

bool quality_pack(struct quality *q, struct packer *p) {
    packed_same(p, q->channels);
    PACKED_COUNTS(p, *q, at, lost);
    packed_bytes(p, q->held, (size_t)q->channels * sizeof *q->held);
    for (int c = 0; c < q->channels; c++) {
        struct second *s = &q->now[c];
        PACKED_MEMBERS(p, *s, sum, squares, first, lowest, highest);
        int64_t *const numbers[] = {&s->n, &s->missing, &s->at_limit, &s->at_lowest, &s->at_highest};
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            PACKED(p, *numbers[i], 0, PACKED_FAR / 1000);
    }
    PACKED(p, q->n, 0, (int64_t)(p->from.left / record_size(q)));
    if (!p->to) {
        q->capacity = q->n;
        q->records = malloc((size_t)(q->n + 1) * record_size(q));
    }
    if (q->n && !q->records)
        return false;
    packed_bytes(p, q->records, (size_t)q->n * record_size(q));
    return !p->from.failed;
}

void quality_pack_told(struct quality *q, struct packer *p) { packed_bytes(p, q->told, (size_t)q->channels); }
