/* journal_entry: one line of the journal: what happened to a stream, and when. Plain data; any thread. */
#ifndef BRR_DAEMON_JOURNAL_JOURNAL_ENTRY_H
#define BRR_DAEMON_JOURNAL_JOURNAL_ENTRY_H
#include <stdbool.h>
#include <stdint.h>

/* Sizes of texts, with the zero byte; longer texts are cut between characters. */
enum {
    JOURNAL_SESSION = 33,
    JOURNAL_PRINCIPAL = 256,
    JOURNAL_CLIENT = 128,
    JOURNAL_ADDRESS = 80,
    JOURNAL_MODEL = 96,
    JOURNAL_SHA256 = 65,
    JOURNAL_DETAIL = 512
};

enum journal_kind {
    JOURNAL_ALARM_ON,
    JOURNAL_ALARM_OFF,
    JOURNAL_EVENT, /* a seizure event became final */
    JOURNAL_GAP,   /* samples that never arrived; detail: "hole", or "client": the client announced them as lost */
    /* This kind and those behind it are logged too. */
    JOURNAL_QUALITY,  /* detail: the channels with flaws from here on, or "good" */
    JOURNAL_OPENED,   /* the stream began; detail: "live" or "replay" */
    JOURNAL_RESUMED,  /* its client came back */
    JOURNAL_LOST,     /* its connection ended, and the stream waits for its client; detail: why */
    JOURNAL_RESTORED, /* the daemon started again and has the stream; it waits for its client */
    JOURNAL_ENDED,    /* detail: why, as in the metric brrd_stream_sessions_closed_total */
    JOURNAL_KINDS
};
const char *journal_kind_name(enum journal_kind kind);            /* "alarm_on" */
bool journal_kind_find(const char *name, enum journal_kind *ret); /* false: there is no such kind */

struct journal_entry {
    int64_t id; /* grows with each entry; set by the database */
    enum journal_kind kind;
    /* An entry of this session and kind with this number is written once; -1: it has no number. */
    int64_t number;
    int64_t received_ms;   /* the daemon's clock, Unix time: when the entry was made */
    int64_t sample_ms;     /* Unix time of the sample start_s by the start of the recording; 0: unknown */
    double start_s, end_s; /* seconds from sample 0 of the stream; NaN: none */
    double value;          /* alarm: probability; event: confidence; NaN: none */
    char session[JOURNAL_SESSION], principal[JOURNAL_PRINCIPAL], client[JOURNAL_CLIENT], address[JOURNAL_ADDRESS];
    char model[JOURNAL_MODEL], sha256[JOURNAL_SHA256], detail[JOURNAL_DETAIL];
};

#endif
