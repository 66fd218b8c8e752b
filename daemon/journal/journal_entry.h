/* journal_entry: one line of the journal: what happened to a stream, and when. Plain data; any thread. */
#pragma once
#include "base/base.h"

/* Sizes of texts, with the zero byte; longer texts are cut between characters. */
enum {
    JOURNAL_SESSION = 33,
    JOURNAL_PRINCIPAL = 256,
    JOURNAL_CLIENT = 128,
    JOURNAL_ADDRESS = 80,
    JOURNAL_MODEL = 96,
    JOURNAL_SHA256 = 65,
    JOURNAL_DETAIL = 512,
    JOURNAL_ALARM = 56,
    JOURNAL_PERSON = 256,
    JOURNAL_WHERE = 96
};

/* Kinds of entries: X(constant, name, words for people). One list makes the constants and both texts, so that none
 * lacks a text. */
#define JOURNAL_KINDS_OF(X)                                                                                                        \
    X(ALARM_ON, "alarm_on", "Alarm on")                                                                                            \
    X(ALARM_OFF, "alarm_off", "Alarm off") /* detail: why, a name of enum journal_off */                                           \
    X(EVENT, "event", "Event") /* a seizure event became final; detail "cut": it was running when monitoring stopped */            \
    X(GAP, "gap", "Gap")       /* samples that never arrived; detail: "hole", or "client": the client announced them as lost */    \
    /* Kinds from this one on are logged too. */                                                                                   \
    X(QUALITY, "quality", "Quality")       /* detail: the channels with flaws from here on, or "good" */                           \
    X(OPENED, "opened", "Opened")          /* the stream began; detail: "live" or "replay" */                                      \
    X(RESUMED, "resumed", "Resumed")       /* its client came back */                                                              \
    X(LOST, "lost", "Lost")                /* its connection ended, and the stream waits for its client; detail: why */            \
    X(RESTORED, "restored", "Restored")    /* the daemon started again and has the stream; it waits for its client */              \
    X(ENDED, "ended", "Ended")             /* detail: why, as in the metric brrd_stream_sessions_closed_total */                   \
    X(MOVED, "moved", "Moved")             /* another daemon has taken the stream over: neither it nor its alarm has ended */      \
    X(TOLD, "told", "Told")                /* a hook was told; person: the hook; detail: "delivered", or why not */                \
    X(ANSWERED, "answered", "Answered")    /* a person has answered the alarm; person: who; detail: what */                        \
    X(ESCALATED, "escalated", "Escalated") /* nobody has answered the alarm in time; step: which one; person: the hook */          \
    X(STANDBY, "standby", "Standby")       /* a person put the bed on standby; person: who; until_ms: its end, 0: it is over */    \
    X(TECHNICAL_ON, "technical_on", "Technical alarm on")    /* detail: "KIND" or "KIND: why", a kind of alarms/alarm.h */         \
    X(TECHNICAL_OFF, "technical_off", "Technical alarm off") /* its cause is over, or its bed is in standby; the same detail */    \
    X(HOLDER, "holder", "Bed held by")                       /* principal: the first caller that streams this bed of the roster */ \
    X(HEARTBEAT, "heartbeat", "Heartbeat")                   /* of no stream and never written: the daemon works, for hooks alone */

enum journal_kind {
#define X(constant, name, words) JOURNAL_##constant,
    JOURNAL_KINDS_OF(X)
#undef X
        JOURNAL_KINDS
};
const char *journal_kind_name(enum journal_kind kind);            /* "alarm_on" */
const char *journal_kind_words(enum journal_kind kind);           /* "Alarm on" */
bool journal_kind_find(const char *name, enum journal_kind *ret); /* false: there is no such kind */
/* True for what an alarm passes: alarms, technical ones too, their answers, and the ends of streams. These entries are
 * written before all others. */
bool journal_kind_is_alarm(enum journal_kind kind);
static inline bool journal_kind_is_technical(enum journal_kind kind) {
    return kind == JOURNAL_TECHNICAL_ON || kind == JOURNAL_TECHNICAL_OFF;
}

/* Why an alarm went off. Only ENDED says that the seizure is over; otherwise monitoring stopped while the alarm was
 * on. */
enum journal_off {
    JOURNAL_OFF_ENDED,
    JOURNAL_OFF_GAP,        /* samples are missing */
    JOURNAL_OFF_ELECTRODES, /* electrodes came off */
    JOURNAL_OFF_CUT,        /* the connection ended, and the stream could not be resumed */
    JOURNAL_OFF_EXPIRED,    /* no samples came, or the client did not come back */
    JOURNAL_OFF_CLOSED,     /* the client or an administrator ended the stream */
    JOURNAL_OFF_FAILED,     /* the stream or the daemon failed */
    JOURNAL_OFF_UNKNOWN,    /* the daemon was away, and the folder in which another one would have the stream does not answer */
    JOURNAL_OFFS
};
const char *journal_off_name(enum journal_off off); /* "ended" */
const char *journal_off_words(const char *name);    /* "connection lost" of "cut", for people; what is no such name unchanged */

struct journal_entry {
    int64_t id; /* grows with each entry; set by the database */
    enum journal_kind kind;
    /* An entry of this session and kind with this number is written once; -1: it has no number. */
    int64_t number;
    int64_t received_ms;   /* the daemon's clock, Unix time: when the entry was made */
    int64_t boot_ms;       /* the same moment by CLOCK_BOOTTIME; 0: unknown, or before this boot of the machine */
    int64_t sample_ms;     /* Unix time of the sample start_s by the start of the recording; 0: unknown */
    double start_s, end_s; /* seconds from sample 0 of the stream; NaN: none */
    double value;          /* alarm: probability; event: confidence; NaN: none */
    char session[JOURNAL_SESSION], principal[JOURNAL_PRINCIPAL], client[JOURNAL_CLIENT], address[JOURNAL_ADDRESS];
    char model[JOURNAL_MODEL], sha256[JOURNAL_SHA256], detail[JOURNAL_DETAIL];
    bool live; /* of a live stream, or unknown; false: of a replay */
    /* The alarm that the entry is about, "" = none. An alarm that begins again within alarms.rejoin has the id of the
     * one before. */
    char alarm[JOURNAL_ALARM];
    /* alarm_on (told, escalated), event: the channels that carry it, for people; "": not known */
    char where[JOURNAL_WHERE];
    char person[JOURNAL_PERSON]; /* who answered (of an alarm that is on again: before), or which hook was told */
    int64_t step;                /* of an escalation, from 1; 0: none */
    int64_t until_ms;            /* Unix time: the end of a standby, of silence, or of an alarm that is escalated; 0: none */
    int64_t on_ms;               /* Unix time: when the alarm began, by the register; 0: unknown */
    bool sounds;                 /* it is on again, and an answer does not cover it any more; not kept */
    bool untold;                 /* receivers are not told: a rule of the bed, or they know what came later; not kept */
};
/* Entries as bytes for another daemon, of which boot_ms counts only in the boot of the machine in which it was made. */
void journal_entries_pack(const struct journal_entry *list, int n, struct str *out);
/* Returns how many there are, at most `most`; -1: the bytes are corrupt, or of a later version. */
int journal_entries_unpack(const void *data, size_t len, struct journal_entry *list, int most);
/* The id of the alarm of this session that begins at this sample (256 Hz): "SESSION-SAMPLE". */
void journal_alarm_id(const char *session, int64_t sample, char ret[JOURNAL_ALARM]);
