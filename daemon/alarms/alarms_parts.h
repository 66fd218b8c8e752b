/* alarms_parts: what the files of the register of alarms share. Loop thread. */
#pragma once
#include "base/map.h"
#include "daemon/alarms/alarms.h"

/* Alarms of each principal and of each of its beds, by hashes of their names. Names whose hashes meet are counted together. */
enum { SHARES = 4096, RANKS = 3 };
struct tally {
    uint16_t of[SHARES], with[ALARMS_MAX + 1]; /* with[n]: how many hashes have n alarms */
    int most;                                  /* of one hash */
};
struct shares {
    int n;
    struct tally principals, beds;
};

struct patient {
    struct alarm alarm;
    struct patient *next, *before; /* whose beds have names of one hash, the newest first */
    int rank;                      /* RANKS - 1 goes first */
    uint16_t name, principal, bed;
    bool moved; /* in a register that is restored: by the rows read so far another daemon has it */
};

struct technical {
    struct alarm alarm;
    int64_t due_boot_ms;  /* it begins then */
    int64_t keep_boot_ms; /* until then it needs no cause */
    bool begun;
    bool gone;      /* the stream that was lost is over */
    uint64_t round; /* the newest one that named its cause */
};

struct standby {
    struct alarm_author author;
    int64_t until_ms;      /* 0: it is over, which other daemons may not know */
    int64_t until_boot_ms; /* it is forgotten then */
};

struct holder {
    char principal[JOURNAL_PRINCIPAL];                  /* "": nobody */
    int64_t opened_ms;                                  /* of the stream by which it came to hold the bed, as Unix time */
    int64_t since_boot_ms, seen_boot_ms, asked_boot_ms; /* asked: for its tokens */
    int64_t written_boot_ms;                            /* its row; 0: none */
};

enum alarms_added { ADDED_CALLS, ADDED_REPEATS, ADDED_TECHNICAL, ADDED_KINDS };

struct alarms {
    struct alarms_plan plan;
    alarms_row_fn *row;
    void *ctx;
    struct map *patients;            /* struct patient, by id */
    struct map *on;                  /* alarms of patients that are on, by session */
    struct patient *of_name[SHARES]; /* by the hash of the bed's name, or of a session without one */
    struct shares shares[RANKS];
    struct map *away;      /* struct patient, by id: alarms that other daemons have, as they went there */
    struct map *technical; /* by kind, principal and bed */
    struct map *standbys;  /* by bed */
    struct map *rules;     /* by bed */
    struct map *holders;   /* of each bed of the roster */
    uint64_t round;
    uint8_t added[ADDED_KINDS][SHARES]; /* rows since added_boot_ms, by the caller's hash: alarms_add */
    int64_t added_boot_ms;
    int64_t numbered;                  /* technical alarms that had an id */
    bool restoring, changed, silenced; /* silenced: some alarm may be */
};

/* The next value of a map. */
static inline bool alarms_each(const struct map *map, size_t *cursor, void **ret) {
    const char *key;
    return map_next(map, cursor, &key, ret);
}

/* The time of a row. */
#define ROW_AT(now) .at_ms = (now)->wall_ms, .boot_ms = (now)->boot_ms

static inline void alarms_write(struct alarms *all, const struct alarms_row *row) {
    all->changed = true;
    if (all->row && !all->restoring)
        all->row(all->ctx, row);
}

/* The CLOCK_BOOTTIME at which the wall clock showed this time, by their present readings; never in the future. */
static inline int64_t alarms_boot_of(int64_t wall_ms, const struct alarms_now *now) {
    const int64_t age_ms = now->wall_ms - wall_ms;
    return now->boot_ms - (age_ms > 0 ? age_ms : 0);
}

static inline uint32_t alarms_hash(uint32_t hash, const char *text) { /* FNV-1a */
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619U;
    return hash;
}

/* True if this caller may have one more row of this kind in this second, which is counted. A thousand alarms may be due in one
 * tick: the rest come in the next ones, so that no other alarm waits for the disk behind them. Each kind has a count of its own, so
 * that no call waits behind repeats or technical alarms. */
static inline bool alarms_add(struct alarms *all, enum alarms_added kind, const char *principal, const struct alarms_now *now) {
    uint8_t *added = &all->added[kind][alarms_hash(2166136261U, principal) % SHARES];
    if (now->boot_ms - all->added_boot_ms >= 900) { /* a tick comes each second, or a little earlier */
        memset(all->added, 0, sizeof all->added);
        all->added_boot_ms = now->boot_ms;
    }
    return *added < ALARMS_ADDED && ++*added;
}

/* Another daemon has the stream. */
void alarms_technical_moved(struct alarms *all, const char *session, const struct alarms_now *now);

/* Whether its escalation goes on. */
static inline bool alarms_escalates(const struct alarms *all, const struct alarm *a) {
    return all->plan.n && !all->restoring && alarm_is_waiting(a);
}
/* Each second: it may be status epilepticus, or its next step is due. */
void alarms_escalate(struct alarms *all, struct alarm *a, const struct alarms_now *now);
/* It sounds again from then on, whoever has silenced it. */
void alarms_begin_status(struct alarm *a, int64_t boot_ms);
void alarms_forget_answer(struct alarm *a, int64_t boot_ms); /* which does not cover it any more: its steps begin anew */
/* It is on again: an answer of long ago does not cover it, and who is called first is called now. */
void alarms_sound_again(const struct alarms *all, struct alarm *a, int64_t boot_ms);

/* True if a standby holds back alarms of this kind for this bed; those of answers and receivers never are. */
bool alarms_stands_by(const struct alarms *all, enum alarm_kind kind, const char *principal, const char *bed);
void alarms_forget_standbys(struct alarms *all, const struct alarms_now *now); /* ended standbys whose time is up */
void alarms_merge_standbys(struct alarms *all, struct alarms *past);
