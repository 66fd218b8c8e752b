/* alarm_history: the alarms of live streams in the journal, with what people answered, for reports and labels. */
#pragma once
#include "client/brrctl/brrctl.h"

enum history_mark { HISTORY_UNMARKED, HISTORY_TRUE, HISTORY_FALSE, HISTORY_UNCLEAR };

struct history_alarm {
    char id[64], bed[128];
    int64_t on_ms, off_ms, answered_ms; /* Unix time; 0: not */
    bool cut;                           /* the monitoring stopped while it was on */
    enum history_mark mark;
    char marked_by[64]; /* "": no name was given */
    int steps;          /* of the escalation */
};
/* An alarm in one stream, by the samples of that stream: an alarm that goes on after a client's restart has two. */
struct history_span {
    int alarm; /* its index */
    char session[40];
    double start_s, end_s; /* end NaN: it did not go off in this stream */
};
/* An event that became final. */
struct history_event {
    char session[40];
    double start_s, end_s;
};
/* A stream that is named by any entry. */
struct history_stream {
    char session[40], bed[128];
    int64_t first_ms, last_ms; /* when its first and last entries were received */
    int64_t sample0_ms;        /* Unix time of its sample 0; 0: unknown */
    double end_s;              /* the latest time that an entry names */
    bool ended;
};
struct history {
    struct history_alarm *alarms;
    struct history_span *spans;
    struct history_event *events;
    struct history_stream *streams;
    int n_alarms, n_spans, n_events, n_streams;
};
/* Reads what was received since then, of beds whose name matches `bed` (a pattern; "" = all). Returns an exit code, after printing
 * the error; history_done frees. */
int history_read(const struct arguments *o, int64_t since_ms, const char *bed, struct history *ret);
void history_done(struct history *h);
/* The events that overlap the alarm in this stream, one after the other; *at is 0 before the first. NULL: there are no more. */
const struct history_event *history_next_event(const struct history *h, const struct history_span *a,
                                               const struct history_stream *s, int *at);
/* The alarm in this stream with these events; false: it has no length. */
bool history_extent(const struct history *h, const struct history_span *a, const struct history_stream *s, double *ret_start_s,
                    double *ret_end_s);
