/* alarm: an alarm of a bed and what people answered: plain data. An alarm about a patient (ALARM_SEIZURE) comes from a stream and
 * stays until somebody acknowledges it; a technical alarm says that the monitoring of a bed, or the daemon, does not work, and is
 * over when its cause is. Any thread. */
#pragma once
#include "daemon/journal/journal_entry.h"

/* Sizes of texts, with the zero byte. */
enum { ALARM_PERSON = 64, ALARM_VIA = 16, ALARM_BY = 128, ALARM_NOTE = 201, ALARM_WHY = 200, ALARM_AGAIN = 256 };

enum alarm_kind {
    ALARM_SEIZURE,
    /* Technical alarms, of a lower priority. */
    ALARM_UNANSWERED, /* the last step of the escalation has passed: nobody answers */
    ALARM_LOST,       /* the connection ended, and the client has not come back */
    ALARM_NO_SIGNAL,  /* the client is connected, and no samples come */
    ALARM_TWICE,      /* two streams of one name are heard */
    ALARM_LATE,       /* results are behind the samples */
    ALARM_MODEL,      /* the model is not loaded */
    ALARM_ELECTRODES, /* channels of the model have flaws */
    ALARM_LEARNING,   /* the model still learns the patient's background */
    ALARM_RATE,       /* the measured sampling rate is another one than the client says */
    ALARM_CLOCK,      /* the clock of the client or of this machine is wrong */
    ALARM_RECEIVER,   /* a hook's receiver does not take alarms; the bed is the hook's name */
    ALARM_JOURNAL,    /* the journal cannot be written; no bed */
    ALARM_KINDS
};
const char *alarm_kind_name(enum alarm_kind kind);            /* "no_signal" */
const char *alarm_kind_words(enum alarm_kind kind);           /* "no signal", for people */
const char *alarm_kind_over(enum alarm_kind kind);            /* "back": what is said of one that is over */
bool alarm_kind_find(const char *name, enum alarm_kind *ret); /* false: there is no such kind */

enum alarm_mark { ALARM_UNMARKED, ALARM_TRUE, ALARM_FALSE, ALARM_UNCLEAR, ALARM_MARKS };
const char *alarm_mark_name(enum alarm_mark mark); /* "", "true", "false", "unclear" */
bool alarm_mark_find(const char *name, enum alarm_mark *ret);

enum alarm_sound { ALARM_QUIET, ALARM_LOW /* a reminder, or a technical alarm */, ALARM_HIGH };

/* What a person does about an alarm. */
enum alarm_action { ALARM_ACKNOWLEDGE, ALARM_SILENCE, ALARM_MARK, ALARM_NOTED, ALARM_ACTIONS };
const char *alarm_action_name(enum alarm_action action); /* "acknowledge", "silence", "mark", "note" */
bool alarm_action_find(const char *name, enum alarm_action *ret);

/* Who did it: by: the caller, such as "token:nurse"; person: the name that the caller gave, may be ""; via: "page", "brrctl",
 * "rpc". */
struct alarm_author {
    char by[ALARM_BY], person[ALARM_PERSON], via[ALARM_VIA];
    int64_t at_ms;   /* Unix time; 0: nobody */
    int64_t boot_ms; /* the same moment by CLOCK_BOOTTIME; 0: unknown, or before this boot of the machine */
};
const char *alarm_author_name(const struct alarm_author *author); /* of the person, else of the caller, for people */

/* True if the change by a is newer than the change by b. */
bool alarm_author_is_later(const struct alarm_author *a, const struct alarm_author *b);

struct alarm_answer {
    enum alarm_action action;
    struct alarm_author author;
    int64_t for_ms;       /* ALARM_SILENCE */
    enum alarm_mark mark; /* ALARM_MARK */
    char note[ALARM_NOTE];
};

struct alarm {
    char id[JOURNAL_ALARM]; /* as journal_alarm_id makes it; of a technical alarm: its kind, time and a number */
    enum alarm_kind kind;
    char session[JOURNAL_SESSION], bed[JOURNAL_CLIENT], principal[JOURNAL_PRINCIPAL], model[JOURNAL_MODEL];
    double start_s; /* from sample 0 of the stream; NaN: unknown */
    bool live;      /* of a patient now, not of a recording that is replayed */
    bool test;
    bool held;                 /* its caller held this bed of the roster */
    double value;              /* probability; NaN: none */
    char where[JOURNAL_WHERE]; /* channels that carried it at the newest onset that named any; "": none did */
    int64_t on_ms, off_ms;     /* Unix time; off 0: it is on */
    bool cut;                  /* the monitoring stopped while it was on; nobody knows whether the seizure is over */
    char why[ALARM_WHY];       /* why it is off; of a technical alarm: details */
    int64_t on_boot_ms;        /* CLOCK_BOOTTIME, as the other times of this clock */
    int64_t off_boot_ms;       /* when it went off last; 0: it is on */
    double joined_s,
        changed_s;           /* seconds of `session`: when that stream took the alarm over, and its newest change; NaN: unknown */
    int64_t joined_boot_ms;  /* when that stream took the alarm over */
    int64_t onset_boot_ms;   /* its newest onset, which is later than on_boot_ms where it was on again */
    int again;               /* so many times it was on again since on_ms */
    int64_t sounded_boot_ms; /* since when nobody's answer covers it */
    struct alarm_author answered;
    struct alarm_author before; /* whose acknowledgement does not cover it any more */
    struct alarm_author silenced;
    int64_t silent_ms, silent_boot_ms; /* without sound until then, as Unix time too; silent_boot_ms 0: with sound */
    int64_t due_boot_ms; /* people are told of it from then on, by a rule of its bed: INT64_MAX: never; 0: it holds nothing back */
    bool blind;          /* it is on, and no stream of the bed is heard */
    bool status;         /* it has been on for ALARMS_STATUS_MS, and sounds again */
    int step;            /* steps of the escalation taken; repeats of the last one count */
    int64_t base_boot_ms, step_boot_ms;
    bool heard;      /* people have heard of the present step, or of the alarm before the first */
    unsigned failed; /* the hooks that did not tell people of it, as bits */
    enum alarm_mark mark;
    char note[ALARM_NOTE];
    struct alarm_author noted; /* who wrote the note */
};

/* Whether a stream of this name is a bed; a program's own name, as brrctl and libbrr send it, says nothing about the bed. */
bool alarm_bed_is_named(const char *bed);
/* True while it must be shown: it is on, or it was and nobody has acknowledged it. */
bool alarm_is_open(const struct alarm *a);
/* True while somebody should acknowledge it. */
bool alarm_is_waiting(const struct alarm *a);
enum alarm_sound alarm_sound(const struct alarm *a, int64_t boot_ms);
/* True while somebody should acknowledge it, and it makes no sound because somebody silenced it. */
bool alarm_is_silent(const struct alarm *a, int64_t boot_ms);
/* "on again, 4 times since 10:03 CET; Ana acknowledged it before, at 10:04 CET", for people; "" = it has been on once. */
void alarm_again_text(const struct alarm *a, char ret[ALARM_AGAIN]);
/* In lists the lowest first, and of a rank the newest: patients' alarms that are on (those that nobody has answered before the
 * others), those that are over and wait for an answer, tests in the same order, technical alarms, then what is closed. */
int alarm_rank(const struct alarm *a);
int alarms_by_rank(const void *a, const void *b); /* for qsort, of pointers to alarms */
/* For so long it has been on, or was: that of a replay, once it is off, in time of the recording. */
int64_t alarm_length_ms(const struct alarm *a, int64_t boot_ms);
