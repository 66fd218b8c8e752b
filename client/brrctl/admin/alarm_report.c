/* alarms report and alarms export: what happened to alarms in the last hours, and the answers as labels for training. */

#include "base/order.h"
#include "brr/v1/alarms.pb-c.h"
#include "client/brrctl/admin/alarm_history.h"
#include "client/brrctl/admin/alarms.h"
#include "client/brrctl/listing.h"
#include "client/brrctl/output.h"
#include "eeg/answers.h"

#define OPTIONS struct alarms_options

bool alarms_since(const struct arguments *o, int64_t *ret) {
    const char *since = own(o)->since ? own(o)->since : "12h";
    int64_t ago;
    if (!str_to_duration_ms(since, &ago) || ago <= 0) {
        fprintf(stderr, "brrctl: --since %s: expected a time ago, such as 12h or 7d\n", since);
        return false;
    }
    *ret = clock_wall_ms() - ago;
    return true;
}

/* ---- report ---- */

struct counts {
    int alarms, marks[4], acknowledged, escalated, cut, eeg;
    double *waits_s; /* until somebody acknowledged, ascending after sort_waits */
};

static void count(struct counts *c, const struct history_alarm *a, const Brr__V1__ListOnsetsResponse *kept) {
    for (size_t i = 0; kept && i < kept->n_onsets; i++)
        c->eeg += !strcmp(kept->onsets[i]->alarm_id, a->id);
    c->alarms++;
    c->marks[a->mark]++;
    c->escalated += a->steps > 0;
    c->cut += a->cut;
    if (a->answered_ms)
        c->waits_s[c->acknowledged++] = (double)(a->answered_ms - a->on_ms) / 1000;
}

/* The median of the waits, which are in order; NaN if nobody has acknowledged an alarm. */
static double median_wait(const struct counts *c) {
    const int n = c->acknowledged;
    return n ? (c->waits_s[(n - 1) / 2] + c->waits_s[n / 2]) / 2 : NAN;
}

static void put_counts(struct json_writer *w, const struct counts *c) {
    json_put_i64(w, "alarms", c->alarms);
    json_put_i64(w, "true", c->marks[HISTORY_TRUE]);
    json_put_i64(w, "false", c->marks[HISTORY_FALSE]);
    json_put_i64(w, "unclear", c->marks[HISTORY_UNCLEAR]);
    json_put_i64(w, "unmarked", c->marks[HISTORY_UNMARKED]);
    JSON_MEMBERS(w, *c, acknowledged, escalated);
    json_put_i64(w, "monitoring_stopped", c->cut);
    json_put_i64(w, "eeg_kept", c->eeg);
    json_put_f64(w, "acknowledged_after_s_median", median_wait(c));
    json_put_f64(w, "acknowledged_after_s_longest", c->acknowledged ? c->waits_s[c->acknowledged - 1] : NAN);
}

/* bed NULL: of all beds. */
static void add_counts(const struct arguments *o, struct listing *l, const char *bed, struct counts *c) {
    char median[32], longest[32];
    SORT(c->waits_s, c->acknowledged, order_f64s);
    if (o->json) {
        struct json_writer *w = output_begin();
        if (bed)
            json_put_str(w, "bed", bed);
        else
            json_put_null(w, "bed");
        put_counts(w, c);
        output_end(w);
        return;
    }
    output_duration(median_wait(c), median, sizeof median);
    output_duration(c->acknowledged ? c->waits_s[c->acknowledged - 1] : NAN, longest, sizeof longest);
    listing_row(l, "%s|%d|%d|%d|%d|%d|%d|%s|%s|%d|%d|%d", bed ? bed : "all", c->alarms, c->marks[HISTORY_TRUE],
                c->marks[HISTORY_FALSE], c->marks[HISTORY_UNCLEAR], c->marks[HISTORY_UNMARKED], c->acknowledged, median, longest,
                c->escalated, c->cut, c->eeg);
}

struct report {
    const struct history *h;
    const Brr__V1__ListOnsetsResponse *kept; /* NULL: no EEG is */
    double *waits_s;
};

/* The alarms of one bed, or of all (NULL). */
static void report_bed(const struct arguments *o, struct listing *l, const struct report *r, const char *bed) {
    struct counts c = {.waits_s = r->waits_s};
    for (int i = 0; i < r->h->n_alarms; i++)
        if (!bed || !strcmp(r->h->alarms[i].bed, bed))
            count(&c, &r->h->alarms[i], r->kept);
    add_counts(o, l, bed, &c);
}

static bool is_first_of_bed(const struct history *h, int i) {
    for (int k = 0; k < i; k++)
        if (!strcmp(h->alarms[k].bed, h->alarms[i].bed))
            return false;
    return true;
}

int alarms_report(const struct arguments *o) {
    struct history h;
    int64_t since_ms;
    if (!alarms_since(o, &since_ms))
        return EXIT_USAGE;
    int code = history_read(o, since_ms, own(o)->bed ? own(o)->bed : "", &h);
    OWNED_ANSWER Brr__V1__ListOnsetsResponse *kept = code ? NULL : alarms_onsets(o, since_ms, &code);
    double *waits_s = calloc((size_t)h.n_alarms + 1, sizeof *waits_s);
    const struct report r = {&h, kept, waits_s};
    if (!code && waits_s) {
        struct listing listing;
        listing_begin(&listing,
                      "bed|>alarms|>true|>false|>unclear|>unmarked|>acknowledged|>median after|>longest|>escalated|>stopped|>EEG");
        for (int i = 0; i < h.n_alarms; i++)
            if (is_first_of_bed(&h, i))
                report_bed(o, &listing, &r, h.alarms[i].bed);
        report_bed(o, &listing, &r, NULL);
        listing_end(&listing);
    }
    free(waits_s);
    history_done(&h);
    return code;
}

/* ---- export ---- */

/* Adds an answer by whoever marked the alarm. Of two seizures that overlap the first counts. */
static int put_mark(const struct history_alarm *a, const char *type, double onset_s, double end_s, double total_s,
                    struct answers *ret, struct err *err) {
    struct answer answer = {.confidence = NAN, .onset_s = onset_s, .end_s = end_s};
    const struct answer *before = answers_find(ret, onset_s, end_s);
    if (before && events_is_seizure(before->type))
        return 0;
    str_copy(answer.type, sizeof answer.type, type);
    str_copy(answer.reader, sizeof answer.reader, *a->marked_by ? a->marked_by : "not named");
    str_format(answer.comment, sizeof answer.comment, "alarm %s marked %s%s", a->id, a->mark == HISTORY_TRUE ? "true" : "false",
               strcmp(type, ANSWER_UNSURE) ? "" : "; no event says where in it the seizure is");
    return answers_put(ret, &answer, total_s, err);
}

/* Of a true alarm each event is a seizure; where it has none, nobody has said when the seizure was. */
static int put_true(const struct history *h, const struct history_span *span, const struct history_stream *s, double total_s,
                    struct answers *ret, struct err *err) {
    const struct history_alarm *a = &h->alarms[span->alarm];
    double start_s, end_s;
    int at = 0, n = 0, rc = 0;
    for (const struct history_event *e; !rc && (e = history_next_event(h, span, s, &at)); n++)
        rc = put_mark(a, "sz", e->start_s, e->end_s, total_s, ret, err);
    return !n && history_extent(h, span, s, &start_s, &end_s) ? put_mark(a, ANSWER_UNSURE, start_s, end_s, total_s, ret, err) : rc;
}

/* Reads the marks that people gave to alarms of the stream: a false alarm is background with its events. Where both overlap the
 * true one counts. */
static int take_marks(const struct history *h, const struct history_stream *s, double total_s, struct answers *ret,
                      struct err *err) {
    double start_s, end_s;
    int rc = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < h->n_spans && !rc; i++) {
            const struct history_span *span = &h->spans[i];
            const struct history_alarm *a = &h->alarms[span->alarm];
            if (strcmp(span->session, s->session) != 0 || a->mark != (pass ? HISTORY_TRUE : HISTORY_FALSE))
                continue;
            if (pass)
                rc = put_true(h, span, s, total_s, ret, err);
            else if (history_extent(h, span, s, &start_s, &end_s))
                rc = put_mark(a, ANSWER_BACKGROUND, start_s, end_s, total_s, ret, err);
        }
    return rc;
}

/* "bed-7_6f1c2a90_events.tsv" */
static int write_labels(const char *folder, const struct history_stream *s, const struct answers *answers, double total_s,
                        bool force, struct err *err) {
    char name[200], path[4096], day[32] = "";
    if (s->sample0_ms)
        clock_utc(s->sample0_ms, "%Y-%m-%d %H:%M:%S", day, sizeof day);
    str_format(name, sizeof name, "%.100s_%.8s_events.tsv", *s->bed ? s->bed : "stream", s->session);
    alarms_plain_name(name);
    const struct events_header header = {.start_text = *day ? day : NULL, .recording_s = total_s};
    const struct answers_file file = {.path = path, .header = &header, .force = force};
    int rc = fsio_join(path, sizeof path, folder, name, err);
    if (rc || (rc = answers_write(answers, &file, err)))
        return rc;
    printf("%s: %zu marked\n", path, answers->n);
    return 0;
}

static int export_stream(const struct arguments *o, const struct history *h, const struct history_stream *s, int *files,
                         struct err *err) {
    OWNED(answers_done) struct answers answers = {0};
    const int64_t until_ms = s->ended ? s->last_ms : clock_wall_ms();
    const double total_s = fmax(s->end_s, (double)(until_ms - s->first_ms) / 1000) + 60;
    int rc = take_marks(h, s, total_s, &answers, err);
    if (rc || !answers.n)
        return rc;
    ++*files;
    return write_labels(own(o)->output, s, &answers, total_s, o->force, err);
}

static int export_all(const struct arguments *o, const struct history *h, struct err *err) {
    int files = 0, rc = fsio_mkdirs(own(o)->output, err);
    for (int i = 0; i < h->n_streams && !rc; i++)
        rc = export_stream(o, h, &h->streams[i], &files, err);
    if (rc)
        return rc;
    if (!files)
        fprintf(stderr, "brrctl: no alarm of this time is marked true or false; nothing was written\n");
    return 0;
}

int alarms_export(const struct arguments *o) {
    struct history h;
    struct err err;
    int64_t since_ms;
    if (!own(o)->as || !own(o)->output) {
        fprintf(stderr, "brrctl: expected `brrctl alarms export --as labels|edf --output DIR`\n");
        return EXIT_USAGE;
    }
    if (!alarms_since(o, &since_ms))
        return EXIT_USAGE;
    if (!strcmp(own(o)->as, "edf"))
        return alarms_export_edf(o, since_ms);
    int code = history_read(o, since_ms, own(o)->bed ? own(o)->bed : "", &h);
    if (!code && export_all(o, &h, &err))
        code = brrctl_fail(&err);
    history_done(&h);
    return code;
}
