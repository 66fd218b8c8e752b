#include "daemon/drain.h"

#include "base/log.h"

/* GRACE: for samples on their way. SAVE: after it sessions go on from the snapshots they have. LEAVE: for the last answers. */
enum { LOOK_MS = 20, GRACE_MS = 500, SAVE_MS = 30 * 1000, LEAVE_MS = 200, RETRY_MS = 1000 };

static void enter(struct drain *d, enum drain_phase phase) {
    d->phase = phase;
    d->since_ms = clock_ms();
}

static void look(uv_timer_t *timer) {
    struct drain *d = timer->data;
    int64_t waited = clock_ms() - d->since_ms;
    if (d->phase == DRAIN_ANNOUNCED && waited >= GRACE_MS) {
        sessions_freeze(d->sessions);
        enter(d, DRAIN_SAVING);
    } else if (d->phase == DRAIN_SAVING && (sessions_saved(d->sessions) || waited >= SAVE_MS)) {
        if (!sessions_saved(d->sessions))
            log_warn("streams, or the EEG of their alarms, were not saved in time; they go on from their last snapshots",
                     "seconds=%d", SAVE_MS / 1000);
        sessions_end(d->sessions);
        enter(d, DRAIN_LEAVING);
    } else if (d->phase == DRAIN_LEAVING && waited >= LEAVE_MS) {
        enter(d, DRAIN_OVER);
        uv_timer_stop(&d->timer);
        d->over(d->ctx);
    }
}

void drain_init(struct drain *d, uv_loop_t *loop) {
    uv_timer_init(loop, &d->timer);
    d->timer.data = d;
}

void drain_start(struct drain *d, struct sessions *sessions, void (*over)(void *ctx), void *ctx) {
    d->sessions = sessions;
    d->over = over;
    d->ctx = ctx;
    if (!sessions || !sessions_count(sessions)) {
        d->phase = DRAIN_OVER;
        return;
    }
    sessions_announce_end(sessions, RETRY_MS, "the daemon is stopping");
    enter(d, DRAIN_ANNOUNCED);
    uv_timer_start(&d->timer, look, LOOK_MS, LOOK_MS);
}

bool drain_is_over(const struct drain *d) { return d->phase == DRAIN_OVER; }

void drain_close(struct drain *d) { uv_close((uv_handle_t *)&d->timer, NULL); }
