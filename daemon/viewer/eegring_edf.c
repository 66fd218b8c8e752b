#include "daemon/viewer/eegring_edf.h"

#include "eeg/frontend.h"
#include "formats/edf_write.h"

enum {
    SECONDS = 2 * EEGRING_EDF_S,
    SAMPLES = SECONDS * FRONTEND_RATE_HZ,
    NOTES = 1024 /* bytes for annotations in a record */,
    LIST = 300
};

struct piece {
    const char *const *names;
    int rows, from, to; /* seconds [from, to) are there */
    int16_t *samples;   /* (rows, SAMPLES) */
    bool there[SECONDS];
    uint64_t missing[SECONDS]; /* rows with samples that were not measured, as bits */
};

static void copy_row(const struct eegring *r, int row, int64_t first, struct piece *p) {
    int16_t *at = p->samples + (int64_t)row * SAMPLES;
    eegring_copy(r, row, first, SAMPLES, at);
    for (int i = 0; i < SAMPLES; i++) {
        const bool measured = at[i] != EEGRING_NONE && at[i] != EEGRING_HELD;
        p->there[i / FRONTEND_RATE_HZ] |= at[i] != EEGRING_NONE;
        p->missing[i / FRONTEND_RATE_HZ] |= (uint64_t)!measured << row;
        at[i] = measured ? at[i] : 0;
    }
}

static int copy_all(const struct eegring *r, int64_t first, struct piece *p, struct err *err) {
    for (int row = 0; row < p->rows; row++)
        copy_row(r, row, first, p);
    for (p->to = SECONDS; p->to && !p->there[p->to - 1];)
        p->to--;
    while (p->from < p->to && !p->there[p->from])
        p->from++;
    return p->to ? 0 : err_set(err, ERR_NOT_FOUND, "the stream has no EEG of that time any more");
}

static void put_edf_header(const struct piece *p, int64_t start_ms, struct str *out) {
    struct edf_write_signal signals[FRONTEND_MAX_CHANNELS + 1];
    char recording[EDF_WRITE_FIELD + 1], day[32] = "X", date[16] = "01.01.85", time[16] = "00.00.00";
    struct tm tm;
    const time_t start = (time_t)(start_ms / 1000);
    if (localtime_r(&start, &tm)) {
        strftime(day, sizeof day, "%d-%b-%Y", &tm);
        strftime(date, sizeof date, "%d.%m.%y", &tm);
        strftime(time, sizeof time, "%H.%M.%S", &tm);
    }
    for (char *c = day; *c; c++)
        *c = (char)toupper(*c);
    str_format(recording, sizeof recording, "Startdate %s X X brrd", day);
    for (int row = 0; row < p->rows; row++)
        signals[row] = (struct edf_write_signal){.label = p->names[row],
                                                 .transducer = "",
                                                 .unit = "uV",
                                                 .prefilter = "HP:0.1Hz",
                                                 .physical_min = "-3276.8",
                                                 .physical_max = "3276.7",
                                                 .samples = FRONTEND_RATE_HZ};
    signals[p->rows] = edf_write_annotations(NOTES / 2);
    const struct edf_write_file file = {.patient = "X X X X",
                                        .recording = recording,
                                        .date = date,
                                        .time = time,
                                        .records = p->to - p->from,
                                        .record_s = 1,
                                        .signals = signals,
                                        .n_signals = p->rows + 1};
    edf_write_header(out, &file);
}

/* An annotation; control characters would end it. seconds 0: it has no length. */
static void put_note(struct str *out, double at_s, int seconds, const char *text) {
    char at[EDF_WRITE_TIME_SIZE];
    str_printf(out, "+%s", edf_write_time(at_s, at));
    if (seconds)
        str_printf(out, "\x15%d", seconds);
    str_append(out, "\x14", 1);
    for (const char *c = text; *c; c++)
        str_append(out, (unsigned char)*c < ' ' ? " " : c, 1);
    str_append(out, "\x14", 2); /* with its NUL */
}

/* Names what was not measured from this second on, where that changes. */
static void put_missing(const struct piece *p, int second, double offset_s, struct str *out) {
    const uint64_t rows = p->missing[second];
    OWNED(str_done) struct str names = str_of(1 << 14), text = str_of(2 * LIST);
    int seconds = 1, n = 0;
    if (!rows || (second > p->from && p->missing[second - 1] == rows))
        return;
    while (second + seconds < p->to && p->missing[second + seconds] == rows)
        seconds++;
    for (int row = 0; row < p->rows; row++)
        if (rows >> row & 1)
            str_printf(&names, "%s%s", n++ ? ", " : "", p->names[row]);
    str_puts(&text, n == p->rows ? "not measured" : "not measured: ");
    if (n < p->rows)
        str_put_list(&text, str_cstr(&names), ", ", LIST / 2);
    put_note(out, second - p->from + offset_s, seconds, str_cstr(&text));
}

int eegring_put_edf(const struct eegring *r, const struct eegring_edf *what, struct str *out, struct err *err) {
    OWNED_MEMORY struct piece *p = calloc(1, sizeof *p);
    OWNED_MEMORY int16_t *samples = NULL;
    OWNED(str_done) struct str notes = str_of(NOTES);
    int rc;
    if (p)
        p->rows = eegring_rows(r, &p->names);
    samples = p ? malloc(sizeof *samples * SAMPLES * (size_t)p->rows) : NULL;
    if (!samples)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the EEG of an alarm");
    p->samples = samples;
    if ((rc = copy_all(r, what->alarm - (int64_t)EEGRING_EDF_S * FRONTEND_RATE_HZ, p, err)))
        return rc;
    const int64_t start_ms = what->wall_ms - (EEGRING_EDF_S - p->from) * INT64_C(1000);
    const double offset_s = (double)(start_ms % 1000) / 1000; /* of the header's time */
    put_edf_header(p, start_ms, out);
    for (int second = p->from; second < p->to; second++) {
        char keeper[EDF_WRITE_KEEPER_SIZE];
        str_clear(&notes);
        str_append(&notes, keeper, edf_write_keeper(second - p->from + offset_s, keeper));
        if (second == p->from)
            put_note(&notes, EEGRING_EDF_S - p->from + offset_s, 0, what->text);
        put_missing(p, second, offset_s, &notes);
        while (str_ok(&notes) && notes.len < NOTES)
            str_append(&notes, "", 1);
        for (int row = 0; row < p->rows; row++)
            str_append(out, p->samples + (int64_t)row * SAMPLES + (int64_t)second * FRONTEND_RATE_HZ,
                       FRONTEND_RATE_HZ * sizeof *p->samples);
        str_append(out, str_cstr(&notes), NOTES);
    }
    return str_ok(out) && str_ok(&notes) ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the EEG of an alarm");
}
