#include "evaluate/flight.h"

struct seat {
    struct timeline *timeline; /* NULL: none, or not needed */
    struct err why;            /* code 0: not lost */
};

/* Recordings first … next − 1 have seats, recording i that of i − first places behind `head`. */
struct flight {
    struct flight_config config;
    int most;
    int64_t windows; /* of a step */
    int64_t first, next, n;
    int head;
    struct seat seats[FLIGHT_MOST];
};

int flight_new(const struct flight_config *config, struct flight **ret, struct err *err) {
    struct flight *f = calloc(1, sizeof *f);
    if (!f)
        return err_set(err, ERR_EXHAUSTED, "out of memory for recordings side by side");
    int most = detector_side_by_side(config->detector, &f->windows);
    f->config = *config;
    f->n = config->n;
    f->most = most < FLIGHT_MOST ? most : FLIGHT_MOST;
    *ret = f;
    return 0;
}

void flight_free(struct flight *f) {
    if (!f)
        return;
    for (int i = 0; i < FLIGHT_MOST; i++)
        timeline_free(f->seats[i].timeline);
    free(f);
}

bool flight_is_over(const struct flight *f) { return f->first == f->n; }
int flight_under_way(const struct flight *f) { return (int)(f->next - f->first); }

static int seat_of(const struct flight *f, int64_t i) { return (f->head + (int)(i - f->first)) % f->most; }
int64_t flight_number(const struct flight *f, int seat) { return f->first + (seat - f->head + f->most) % f->most; }

static void begin(struct flight *f) {
    while (f->next < f->n && f->next - f->first < f->most) {
        int at = seat_of(f, f->next);
        struct seat *seat = &f->seats[at];
        *seat = (struct seat){0};
        if (f->config.begin(f->config.ctx, f->next, at, &seat->timeline, &seat->why) == FLIGHT_WAITS && !seat->why.code)
            return;
        f->next++;
    }
}

static int run(struct flight *f, struct err *err) {
    struct timeline *timelines[FLIGHT_MOST];
    int n = 0;
    for (int64_t i = f->first; i < f->next; i++) {
        struct seat *seat = &f->seats[seat_of(f, i)];
        if (seat->timeline && !timeline_done(seat->timeline))
            timelines[n++] = seat->timeline;
    }
    return n ? detector_run(f->config.detector, f->config.stream, timelines, n, f->windows, NULL, err) : 0;
}

/* The oldest recording leaves its seat. */
static int leave(struct flight *f, struct err *err) {
    struct seat *seat = &f->seats[f->head];
    int rc = seat->why.code ? f->config.lost(f->config.ctx, f->first, &seat->why, err)
                            : f->config.end(f->config.ctx, f->head, seat->timeline, err);
    if (rc)
        return rc;
    timeline_free(seat->timeline);
    seat->timeline = NULL;
    f->head = (f->head + 1) % f->most;
    if (seat->why.code && f->config.shrinks) {
        f->next--;
        f->n--;
    } else {
        f->first++;
    }
    return 0;
}

int flight_step(struct flight *f, struct err *err) {
    begin(f);
    int rc = run(f, err);
    while (!rc && f->first < f->next) {
        const struct seat *seat = &f->seats[f->head];
        if (seat->timeline && ((rc = timeline_status(seat->timeline, err)) || !timeline_done(seat->timeline)))
            break;
        rc = leave(f, err);
    }
    return rc;
}
