#include "client/brrctl/admin/alarm_history.h"

#include "base/needed.h"
#include "brr/v1/journal.pb-c.h"

enum { PAGE = 500 };

/* Makes room for one more in a list whose capacity doubles. */
static void *grow(void *list, int n, size_t size) {
    if (n & (n - 1))
        return list; /* the capacity is the next power of two */
    return needed(realloc(list, (size_t)(n ? 2 * n : 1) * size));
}

static struct history_alarm *find_alarm(const struct history *h, const char *id) {
    for (int i = h->n_alarms - 1; i >= 0; i--)
        if (!strcmp(h->alarms[i].id, id))
            return &h->alarms[i];
    return NULL;
}

static struct history_span *find_span(const struct history *h, const struct history_alarm *a, const char *session) {
    for (int i = h->n_spans - 1; i >= 0; i--)
        if (h->spans[i].alarm == a - h->alarms && !strcmp(h->spans[i].session, session))
            return &h->spans[i];
    return NULL;
}

/* An alarm that is known goes on, in the same stream or in another one of the bed. */
static void add_alarm(struct history *h, const Brr__V1__JournalEntry *e) {
    struct history_alarm *a = find_alarm(h, e->alarm_id);
    if (!a) {
        h->alarms = grow(h->alarms, h->n_alarms, sizeof *h->alarms);
        a = &h->alarms[h->n_alarms++];
        *a = (struct history_alarm){.on_ms = e->received_ms};
        str_copy(a->id, sizeof a->id, e->alarm_id);
        str_copy(a->bed, sizeof a->bed, e->client_name);
    }
    struct history_span *span = find_span(h, a, e->session_id);
    a->off_ms = 0;
    if (span) {
        span->end_s = NAN;
        return;
    }
    h->spans = grow(h->spans, h->n_spans, sizeof *h->spans);
    span = &h->spans[h->n_spans++];
    *span = (struct history_span){.alarm = (int)(a - h->alarms), .start_s = e->start_s, .end_s = NAN};
    str_copy(span->session, sizeof span->session, e->session_id);
}

static void end_alarm(const struct history *h, struct history_alarm *a, const Brr__V1__JournalEntry *e) {
    struct history_span *span = find_span(h, a, e->session_id);
    if (span)
        span->end_s = e->start_s;
    a->off_ms = e->received_ms;
    a->cut = *e->detail && strcmp(e->detail, "ended") != 0;
}

static void add_event(struct history *h, const Brr__V1__JournalEntry *e) {
    h->events = grow(h->events, h->n_events, sizeof *h->events);
    struct history_event *event = &h->events[h->n_events++];
    *event = (struct history_event){.start_s = e->start_s, .end_s = e->end_s};
    str_copy(event->session, sizeof event->session, e->session_id);
}

static void add_stream(struct history *h, const Brr__V1__JournalEntry *e) {
    struct history_stream *s = NULL;
    for (int i = h->n_streams - 1; i >= 0 && !s; i--)
        if (!strcmp(h->streams[i].session, e->session_id))
            s = &h->streams[i];
    if (!s) {
        h->streams = grow(h->streams, h->n_streams, sizeof *h->streams);
        s = &h->streams[h->n_streams++];
        *s = (struct history_stream){.first_ms = e->received_ms};
        str_copy(s->session, sizeof s->session, e->session_id);
        str_copy(s->bed, sizeof s->bed, e->client_name);
    }
    s->last_ms = e->received_ms;
    s->ended = !strcmp(e->kind, "ended");
    s->end_s = fmax(s->end_s, isfinite(e->end_s) ? e->end_s : isfinite(e->start_s) ? e->start_s : 0);
    if (e->sample_ms && isfinite(e->start_s))
        s->sample0_ms = e->sample_ms - llround(e->start_s * 1000);
}

/* detail: "ACTION[ MARK] via PROGRAM[ by NAME][: NOTE]". */
static void take_reader(struct history_alarm *a, const Brr__V1__JournalEntry *e) {
    const char *via = strstr(e->detail, " via "), *by = via ? strstr(via, " by ") : NULL;
    if (by)
        str_format(a->marked_by, sizeof a->marked_by, "%.*s", (int)strcspn(by + 4, ":"), by + 4);
    else
        str_copy(a->marked_by, sizeof a->marked_by, *e->person ? e->person : e->principal);
}

static void take_answer(struct history_alarm *a, const Brr__V1__JournalEntry *e) {
    static const char *const marks[] = {[HISTORY_UNMARKED] = "",
                                        [HISTORY_TRUE] = "mark true ",
                                        [HISTORY_FALSE] = "mark false ",
                                        [HISTORY_UNCLEAR] = "mark unclear "};
    if (str_starts(e->detail, "acknowledge ") && !a->answered_ms)
        a->answered_ms = e->received_ms;
    for (int i = HISTORY_TRUE; i <= HISTORY_UNCLEAR; i++)
        if (str_starts(e->detail, marks[i])) {
            a->mark = (enum history_mark)i;
            take_reader(a, e);
        }
}

static void take(struct history *h, const Brr__V1__JournalEntry *e) {
    struct history_alarm *a = *e->alarm_id ? find_alarm(h, e->alarm_id) : NULL;
    if (!e->live || !*e->session_id || str_starts(e->session_id, "test"))
        return;
    if (!strcmp(e->kind, "alarm_on")) {
        add_stream(h, e);
        if (*e->alarm_id)
            add_alarm(h, e);
    } else if (!strcmp(e->kind, "event")) {
        add_stream(h, e);
        add_event(h, e);
    } else if (!strcmp(e->kind, "answered")) { /* of any time: it says nothing of how long the stream is */
        if (a)
            take_answer(a, e);
    } else if (!strcmp(e->kind, "escalated")) {
        if (a)
            a->steps++;
    } else if (!a) {
        add_stream(h, e);
    } else if (!strcmp(e->kind, "alarm_off")) {
        end_alarm(h, a, e);
    }
}

int history_read(const struct arguments *o, int64_t since_ms, const char *bed, struct history *ret) {
    char *kinds[] = {"alarm_on", "alarm_off", "event", "answered", "escalated", "opened", "ended", "lost"};
    Brr__V1__JournalFilter filter = BRR__V1__JOURNAL_FILTER__INIT;
    Brr__V1__ListJournalRequest in = BRR__V1__LIST_JOURNAL_REQUEST__INIT;
    int code = 0;
    *ret = (struct history){0};
    filter.client = (char *)(uintptr_t)bed;
    filter.since_ms = since_ms;
    filter.kinds = kinds;
    filter.n_kinds = sizeof kinds / sizeof *kinds;
    in.filter = &filter;
    in.limit = PAGE;
    do {
        OWNED_ANSWER Brr__V1__ListJournalResponse *out = brrctl_call(o, "/brr.v1.Journal/List", &in.base, &code);
        if (!out)
            return code;
        for (size_t i = 0; i < out->n_entries; i++)
            take(ret, out->entries[i]);
        in.cursor = out->cursor;
    } while (in.cursor);
    return 0;
}

void history_done(struct history *h) {
    FREE_MEMBERS(*h, alarms, spans, events, streams);
    *h = (struct history){0};
}

/* The end of the span: of its stream where the alarm did not go off in it. */
static double end_of(const struct history_span *a, const struct history_stream *s) {
    return isfinite(a->end_s) ? a->end_s : fmax(a->start_s, s->end_s);
}

const struct history_event *history_next_event(const struct history *h, const struct history_span *a,
                                               const struct history_stream *s, int *at) {
    while (*at < h->n_events) {
        const struct history_event *e = &h->events[(*at)++];
        if (!strcmp(e->session, a->session) && e->start_s <= end_of(a, s) && e->end_s >= a->start_s)
            return e;
    }
    return NULL;
}

bool history_extent(const struct history *h, const struct history_span *a, const struct history_stream *s, double *ret_start_s,
                    double *ret_end_s) {
    int at = 0;
    *ret_start_s = a->start_s;
    *ret_end_s = end_of(a, s);
    for (const struct history_event *e; (e = history_next_event(h, a, s, &at));) {
        *ret_start_s = fmin(*ret_start_s, e->start_s);
        *ret_end_s = fmax(*ret_end_s, e->end_s);
    }
    return *ret_end_s > *ret_start_s;
}
