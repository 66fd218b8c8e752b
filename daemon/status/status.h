/* status: what the pages show, as one picture of the daemon that never changes once it is published. The loop makes one each
 * second and at each alarm (status/gather.h); threads that answer HTTP share it by reference, so that they touch nothing of the
 * loop. Plain data, all of it in the arena of the status. Bounded: STATUS_STREAMS, STATUS_JOBS, STATUS_BYTES. */
#pragma once

#include "base/arena.h"
#include "brr/v1/beds.pb-c.h"
#include "daemon/alarms/alarm.h"
#include "daemon/device/device_watch.h"
#include "daemon/hooks/hooks.h"
#include "daemon/jobs/job.h"
#include "daemon/models/models.h"
#include "daemon/status/past.h"
#include "daemon/viewer/eegring.h"

enum {
    STATUS_STREAMS = 12 << 10, /* more than limits.sessions allows, with ended ones and beds without a stream */
    STATUS_JOBS = 300,
    STATUS_ENDED_JOBS = 100, /* of these, the newest */
    STATUS_MINUTE = 60,      /* one point a second */
    STATUS_LOSSES = 120,
    STATUS_HOOKS = 16,
    STATUS_ALARMS = 300, /* closed ones; open ones are never left out */
    STATUS_DEVICES = 16,
    STATUS_VOLUMES = 3,
    STATUS_BYTES = 64 << 20,
};
#define STATUS_UNHEARD   "nothing heard since the daemon started" /* of a stream with restored_ms */
#define STATUS_CLOSED_MS (12 * 3600 * INT64_C(1000))

/* In the order in which people should look at them. */
enum status_mood {
    STATUS_ALARM,
    STATUS_WAS,  /* an alarm is over, and nobody has acknowledged it */
    STATUS_LOST, /* no samples come */
    STATUS_LATE, /* the device is behind */
    STATUS_POOR, /* channels with flaws, or lost samples */
    STATUS_FINE,
    STATUS_STANDBY, /* not monitored for a while: a person said so */
    STATUS_ABSENT,  /* a bed of the roster without a stream */
    STATUS_ENDED,   /* the stream is over, a few minutes ago */
    STATUS_MOODS
};

struct status_channel {
    const char *name;
    int flaws; /* bits of enum quality_flaw; 0: good */
    bool used; /* by the model */
};

struct status_stream {
    Brr__V1__Bed bed;            /* what its tile shows, but for the alarms; its texts lie in the arena */
    const char *address;         /* "": unknown */
    const char *key;             /* names the tile: the id, or one of the bed */
    int place;                   /* in the roster; INT_MAX: not in it */
    const struct alarm *alarm;   /* the open alarm of its patient; NULL: none */
    enum status_mood mood;       /* bed.state */
    bool realtime, loaded;       /* loaded: the model */
    bool silent, late;           /* no samples come; the device is behind */
    bool twice;                  /* another stream of this name is heard as well */
    bool held;                   /* its caller held this bed of the roster, and may have handed it over */
    bool moved;                  /* it has ended here: another daemon has it */
    bool followed;               /* its client is gone, and another live stream of its bed was opened since, here */
    float minute[STATUS_MINUTE]; /* the highest of each of the last seconds, oldest first; NaN: none */
    double off;                  /* threshold at which the alarm ends; 0: unknown */
    double rate_hz, measured_hz; /* measured: 0 = it is what the client says, where rate_known */
    bool rate_known;             /* it was measured */
    double ahead_s;              /* the newest samples are stamped so long after they came; NaN: they have no stamps */
    int64_t learned_before_ms;   /* signal in which the patient was being learned before the daemon's restart, and still is */
    int64_t alarm_ms;            /* since when it is on, else when the newest began; 0: none */
    int64_t received_s, events, reconnects;
    int64_t restored_ms; /* it was taken over from before the daemon's start, when nobody heard it since; 0: else */
    const struct status_channel *channels;
    int n_channels, n_flawed;
    const char *montage; /* of the model; "" until it is loaded */
    struct past *trace;  /* NULL: none */
    struct eegring *eeg; /* a mention; NULL: it keeps none */
};

struct status_job {
    struct job job; /* a copy; of what it points to it has `result` alone */
    int position;   /* in the queue from 1; 0: it does not wait */
};

/* Of the job that runs, over the steps of this attempt, at even distances. */
struct status_losses {
    char job[JOB_ID_SIZE];
    int64_t first, step, every; /* steps: of the first and the newest value, and between two */
    int n;
    float values[STATUS_LOSSES];
};

struct status_model {
    struct served_model served; /* a copy; of what it points to it has `opened` alone */
    const char *devices;        /* "cuda:0, cuda:1" */
    int streams;
};

struct status_volume {
    const char *name, *path;
    bool answers;
    int64_t free_bytes, size_bytes; /* -1: unknown */
};

struct status_hook {
    const char *name;
    double delivered, failed, dropped; /* attempts */
    struct hooks_state state;
};

struct status_device {
    struct device_info info;
    struct device_health health; /* of one that does not report: what the machine says */
    struct device_fault fault;   /* it takes no new work; why: "" */
};

struct status {
    const char *version, *revision, *notice;
    int64_t taken_ms; /* Unix time */
    int64_t boot_ms;  /* the same moment by CLOCK_BOOTTIME, for the alarms */
    int64_t uptime_s;
    double cpu; /* processors that the daemon uses */
    int64_t resident_bytes;
    struct status_device devices[STATUS_DEVICES];
    int n_devices;
    struct status_volume volumes[STATUS_VOLUMES];
    int n_volumes;
    struct status_hook hooks[STATUS_HOOKS];
    int n_hooks;
    bool journal_fails, database_fails;
    const struct alarm **alarms; /* copies: open, or closed within STATUS_CLOSED_MS; alarms_by_rank */
    int n_alarms;
    struct status_stream *streams; /* in the order of the roster, then by name */
    int n_streams, room_streams;   /* room: for so many, at most STATUS_STREAMS */
    int left_streams;              /* there was no room for them */
    int n_folded; /* behind the n_streams: streams whose bed has a newer one that is heard, and those of `brrctl detect` and `view`:
                     they have a page, and no tile */
    struct status_job *jobs; /* running, waiting, then ended ones, newest first */
    int n_jobs, left_jobs;
    struct status_losses losses;
    struct status_model *models;
    int n_models;
    /* the module's own */
    struct status_board *board;
    struct arena arena;
    atomic_int references;
    uint64_t number; /* grows with each that is published */
};

struct status_board;
/* One reference; NULL when out of memory. It uses the memory of the last one that was dropped on this board; NULL: no board. */
struct status *status_new(struct status_board *b);
void status_sort(struct status *s); /* before it is published: streams into their order */
const struct status *status_share(const struct status *s);
void status_drop(const struct status *s); /* NULL is fine */
OWNABLE(const struct status, status_drop)
const char *status_mood_name(enum status_mood m); /* "alarm", for pages and scripts */

/* Where the newest one is. Any thread, except where noted. */
struct status_board *status_board_new(void);
/* Nobody waits any more; NULL is fine. Statuses that somebody still reads may be dropped later. */
void status_board_free(struct status_board *b);
/* Loop thread. Takes the reference; NULL: nothing is published. */
void status_publish(struct status_board *b, struct status *s);
/* The newest one, shared; NULL before the first. */
const struct status *status_newest(struct status_board *b);
/* Waits for one with a higher number, at most `ms`; NULL: there was none, or the board has stopped. */
const struct status *status_await(struct status_board *b, uint64_t number, int64_t ms);
/* From now on nobody waits. */
void status_board_stop(struct status_board *b);
