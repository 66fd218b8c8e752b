#include "daemon/viewer/traces.h"

#include "eeg/frontend.h"

enum { LATEST_P = 4 * TRACES_SAMPLES_S };

struct scratch {
    uint64_t held[TRACES_BINS + 1]; /* bins need not begin where the query does */
    int16_t values[TRACES_BIN];
};
_Static_assert(TRACES_BINS >= TRACES_SAMPLES_S * FRONTEND_RATE_HZ, "held has room for an answer of samples");

static int read_argument_number(const char *name, const char *text, int64_t low, int64_t high, int64_t *ret, struct err *err) {
    if (text && (!str_to_i64(text, ret) || *ret < low || *ret > high))
        return err_set(err, ERR_INVALID, "%s: expected a whole number from %lld to %lld", name, (long long)low, (long long)high);
    return 0;
}

int traces_query_read(const char *from, const char *n, const char *bin, struct traces_query *ret, struct err *err) {
    const int64_t far = INT64_C(1) << 53;
    *ret = (struct traces_query){.from = -1, .bin = 1};
    int rc = read_argument_number("from", from, -1, far, &ret->from, err);
    rc = rc ? rc : read_argument_number("n", n, 0, far, &ret->n, err);
    return rc ? rc : read_argument_number("bin", bin, 1, TRACES_BIN, &ret->bin, err);
}

int traces_fit(struct traces_query *q, double rate_hz, struct eegring_span has, struct err *err) {
    int64_t most = (int64_t)((q->bin > 1 ? TRACES_BINNED_S : TRACES_SAMPLES_S) * rate_hz);
    if (q->bin > 1 && most > TRACES_BINS * q->bin)
        most = TRACES_BINS * q->bin;
    if (q->n > most)
        return err_set(err, ERR_INVALID, "n: at most %lld samples in one answer with bin=%lld", (long long)most, (long long)q->bin);
    if (q->from < 0)
        q->from = has.end - q->n;
    int64_t end = q->from + q->n < has.end ? q->from + q->n : has.end;
    q->from = q->from > has.first ? q->from : has.first;
    q->from -= q->from % q->bin;
    q->n = end > q->from ? (end - q->from + q->bin - 1) / q->bin * q->bin : 0;
    return 0;
}

void traces_put_values(struct str *out, const int16_t *values, int64_t n) {
    uint8_t bytes[1024];
    for (int64_t i = 0; i < n;) {
        size_t len = 0;
        for (; i < n && len < sizeof bytes; i++) {
            bytes[len++] = (uint8_t)((uint16_t)values[i] & 0xff);
            bytes[len++] = (uint8_t)((uint16_t)values[i] >> 8);
        }
        str_append(out, bytes, len);
    }
}

/* n samples → the lowest and the highest of each bin, in place. */
static int64_t fold_bins(int16_t *values, int64_t n, int64_t bin) {
    for (int64_t b = 0; b < n / bin; b++) {
        int16_t low = INT16_MAX, high = EEGRING_NONE;
        for (int64_t i = b * bin; i < (b + 1) * bin; i++)
            if (values[i] != EEGRING_NONE) {
                low = values[i] < low ? values[i] : low;
                high = values[i] > high ? values[i] : high;
            }
        values[2 * b] = high == EEGRING_NONE ? EEGRING_NONE : low;
        values[2 * b + 1] = high;
    }
    return n / bin * 2;
}

static void put_span(struct json_writer *w, const char *key, int64_t first, int64_t end) {
    json_begin_array(w, key);
    json_put_i64(w, NULL, first);
    json_put_i64(w, NULL, end);
    json_end(w, ']');
}

void traces_put_held(struct json_writer *w, const struct traces_query *q, const uint64_t *held, int rows) {
    const int64_t n = q->n / q->bin;
    json_begin_array(w, "held");
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && held[end] == held[i];)
            end++;
        if (!held[i])
            continue;
        json_begin_array(w, NULL);
        json_put_i64(w, NULL, q->from + i * q->bin);
        json_put_i64(w, NULL, q->from + end * q->bin);
        for (int row = 0; row < rows && held[i] != UINT64_MAX >> (64 - rows); row++)
            if (held[i] >> row & 1)
                json_put_i64(w, NULL, row);
        json_end(w, ']');
    }
    json_end(w, ']');
}

static void put_marks(struct json_writer *w, const struct eegring *r) {
    static const char *const kinds[] = {
        [EEGRING_ALARM_ON] = "alarm_on", [EEGRING_ALARM_OFF] = "alarm_off", [EEGRING_EVENT] = "event"};
    struct eegring_mark marks[EEGRING_MARKS];
    const int n = eegring_marks(r, marks);
    json_begin_array(w, "marks");
    for (int i = 0; i < n; i++) {
        json_begin_object(w, NULL);
        json_put_str(w, "kind", kinds[marks[i].kind]);
        JSON_MEMBERS(w, marks[i], first, end);
        json_put_i64(w, "ms", marks[i].wall_ms);
        json_end(w, '}');
    }
    json_end(w, ']');
}

/* Those of the samples, and of some before them: probabilities come after their samples. */
static void put_probabilities(struct json_writer *w, const struct eegring *r, const struct traces_query *q, int16_t *scratch) {
    const int64_t early = q->from / EEGRING_P_STEP - LATEST_P, first = early > 0 ? early : 0,
                  n = (q->from + q->n + EEGRING_P_STEP - 1) / EEGRING_P_STEP - first;
    json_put_i64(w, "p_first", first * EEGRING_P_STEP);
    json_put_i64(w, "p_step", EEGRING_P_STEP);
    json_begin_array(w, "p");
    for (int64_t done = 0, part; done < n; done += part) {
        part = n - done < TRACES_BIN ? n - done : TRACES_BIN;
        eegring_copy_p(r, first + done, part, scratch);
        for (int64_t i = 0; i < part; i++)
            json_put_i64(w, NULL, scratch[i] == EEGRING_NONE ? -1 : scratch[i]);
    }
    json_end(w, ']');
}

static void put_traces_head(struct json_writer *w, const struct traces_stream *s, const struct traces_query *q,
                            struct scratch *scratch) {
    const char *const *names;
    struct eegring_state state;
    const int rows = eegring_rows(s->eeg, &names);
    eegring_describe(s->eeg, &state);
    json_put_f64(w, "rate", FRONTEND_RATE_HZ);
    json_put_f64(w, "scale", EEGRING_UV);
    JSON_ARRAY(w, "rows", names, rows);
    JSON_MEMBERS(w, *q, from, n, bin);
    put_span(w, "kept", state.kept.first, state.kept.end);
    json_begin_array(w, "pins");
    for (int i = 0; i < state.n_pins; i++)
        put_span(w, NULL, state.pins[i].first, state.pins[i].end);
    json_end(w, ']');
    json_put_i64(w, "newest_ms", state.newest_wall_ms);
    JSON_MEMBERS(w, *s, on, live);
    traces_put_held(w, q, scratch->held, rows);
    put_marks(w, s->eeg);
    put_probabilities(w, s->eeg, q, scratch->values);
}

/* The values of a row, in parts of whole bins, and a bit for the row where they are held. */
static void put_trace(struct str *out, const struct eegring *r, int row, const struct traces_query *q, struct scratch *s) {
    for (int64_t done = 0, part; done < q->n; done += part) {
        part = TRACES_BIN / q->bin * q->bin;
        part = q->n - done < part ? q->n - done : part;
        eegring_copy(r, row, q->from + done, part, s->values);
        for (int64_t i = 0; i < part; i++)
            if (s->values[i] == EEGRING_HELD) {
                s->values[i] = EEGRING_NONE;
                s->held[(done + i) / q->bin] |= UINT64_C(1) << row;
            }
        traces_put_values(out, s->values, q->bin > 1 ? fold_bins(s->values, part, q->bin) : part);
    }
}

int traces_of_stream(const struct traces_stream *s, const struct traces_query *query, struct str *out, struct err *err) {
    struct traces_query q = *query;
    struct eegring_state state;
    const char *const *names;
    OWNED_MEMORY struct scratch *scratch = calloc(1, sizeof *scratch);
    OWNED(str_done) struct str values = str_of(TRACES_BYTES);
    if (!scratch)
        return err_set(err, ERR_EXHAUSTED, "out of memory for EEG");
    eegring_describe(s->eeg, &state);
    for (int i = 0; i < state.n_pins; i++)
        state.kept.first = state.pins[i].first < state.kept.first ? state.pins[i].first : state.kept.first;
    int rc = traces_fit(&q, FRONTEND_RATE_HZ, state.kept, err);
    if (rc)
        return rc;
    const int rows = eegring_rows(s->eeg, &names);
    for (int row = 0; row < rows; row++)
        put_trace(&values, s->eeg, row, &q, scratch);
    struct json_writer w = json_object_to(out);
    put_traces_head(&w, s, &q, scratch);
    json_end(&w, '}');
    str_puts(out, out->len % 2 ? "\n" : " \n");
    str_append(out, values.data, values.len);
    return str_ok(out) && str_ok(&values) ? 0 : err_set(err, ERR_EXHAUSTED, "the answer is too long");
}
