/* journal_entry: one line of the journal: what happened to a stream, and when. Plain data; any thread. */
#pragma once
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
    JOURNAL_DETAIL = 512,
    JOURNAL_ALARM = 56,
    JOURNAL_PERSON = 256
};

enum journal_kind {
    JOURNAL_ALARM_ON,
    JOURNAL_ALARM_OFF, /* detail: why, a name of enum journal_off */
    JOURNAL_EVENT,     /* a seizure event became final; detail "cut": it was running when monitoring stopped */
    JOURNAL_GAP,       /* samples that never arrived; detail: "hole", or "client": the client announced them as lost */
    /* Kinds from this one on are logged too. */
    JOURNAL_QUALITY,       /* detail: the channels with flaws from here on, or "good" */
    JOURNAL_OPENED,        /* the stream began; detail: "live" or "replay" */
    JOURNAL_RESUMED,       /* its client came back */
    JOURNAL_LOST,          /* its connection ended, and the stream waits for its client; detail: why */
    JOURNAL_RESTORED,      /* the daemon started again and has the stream; it waits for its client */
    JOURNAL_ENDED,         /* detail: why, as in the metric brrd_stream_sessions_closed_total */
    JOURNAL_MOVED,         /* another daemon has taken the stream over: neither it nor its alarm has ended */
    JOURNAL_TOLD,          /* a hook was told; person: the hook; detail: "delivered", or why not */
    JOURNAL_ANSWERED,      /* a person has answered the alarm; person: who; detail: what */
    JOURNAL_ESCALATED,     /* nobody has answered the alarm in time; step: which step was taken; person: the hook */
    JOURNAL_STANDBY,       /* a person has put the bed on standby; person: who; until_ms: its end, or 0: standby is over */
    JOURNAL_TECHNICAL_ON,  /* a technical alarm began; detail: "KIND" or "KIND: why", a kind of alarms/alarm.h */
    JOURNAL_TECHNICAL_OFF, /* its cause is over, or its bed is in standby; detail: as when it began */
    JOURNAL_HEARTBEAT,     /* of no stream and never written: the daemon works, for hooks alone */
    JOURNAL_KINDS
};
const char *journal_kind_name(enum journal_kind kind);            /* "alarm_on" */
bool journal_kind_find(const char *name, enum journal_kind *ret); /* false: there is no such kind */
/* True for what an alarm passes: alarms, technical ones too, their answers, and the ends of streams. These entries are written
 * before all others. */
bool journal_kind_is_alarm(enum journal_kind kind);

/* Why an alarm went off. Only ENDED says that the seizure is over; otherwise monitoring stopped while the alarm was on. */
enum journal_off {
    JOURNAL_OFF_ENDED,
    JOURNAL_OFF_GAP,        /* samples are missing */
    JOURNAL_OFF_ELECTRODES, /* electrodes came off */
    JOURNAL_OFF_CUT,        /* the connection ended, and the stream could not be resumed */
    JOURNAL_OFF_EXPIRED,    /* no samples came, or the client did not come back */
    JOURNAL_OFF_CLOSED,     /* the client or an administrator ended the stream */
    JOURNAL_OFF_FAILED,     /* the stream or the daemon failed */
    JOURNAL_OFFS
};
const char *journal_off_name(enum journal_off off); /* "ended" */

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
    bool live; /* of a live stream, or unknown; false: of a replay */
    /* The alarm that the entry is about, "" = none. An alarm that begins again within alarms.rejoin has the id of the one before.
     */
    char alarm[JOURNAL_ALARM];
    char person[JOURNAL_PERSON]; /* who answered, or which hook was told */
    int64_t step;                /* of an escalation, from 1; 0: none */
    int64_t until_ms;            /* Unix time: the end of a standby or of silence; 0: none */
};
/* The id of the alarm of this session that begins at this sample (256 Hz): "SESSION-SAMPLE". */
void journal_alarm_id(const char *session, int64_t sample, char ret[JOURNAL_ALARM]);
