/* Live sessions that wait too long for the device (limits.lag): which of them are shed, and when they should come back. */

#include "base/base.h"
#include "base/log.h"
#include "base/order.h"
#include "daemon/live/session_parts.h"

enum { SHED_SHARE = 20, LAG_FALLS_MS = 50 /* in a second, or it does not fall */ };

static int64_t overload_retry_ms(const struct session *s) {
    int64_t pause = SESSION_RETRY_MS, most = s->all->config.resume_ttl_ms / 2; /* later it may be gone */
    most = most < SESSION_LONGEST_RETRY_MS ? most : SESSION_LONGEST_RETRY_MS;
    for (int i = 1; i < s->overloads && pause < most; i++)
        pause *= 2;
    pause = pause < most ? pause : most;
    return pause - pause / 2 * (int64_t)strtoul(s->id + sizeof s->id - 5, NULL, 16) / 0xffff; /* the id is random */
}

int64_t session_retry_ms(const struct session *s, const char *reason) {
    if (!reason)
        return 0;
    if (!strcmp(reason, "OVERLOADED"))
        return overload_retry_ms(s);
    return !strcmp(reason, "DRAINING") || !strcmp(reason, "RESTORING") ? SESSION_RETRY_MS : 0;
}

/* Live output that comes late is worse than none: the client hears how far behind the device is and comes back later. */
static void shed(struct session *s, int64_t now) {
    int64_t lag = session_lag_ms(s, now), limit = s->all->config.lag_ms;
    struct err err;
    err_set(&err, ERR_EXHAUSTED,
            "the device is %.1f s behind this live stream, more than limits.lag allows (%.1f s): fewer streams or jobs, or a "
            "faster device",
            (double)lag / 1000, (double)limit / 1000);
    log_warn("a live stream is sent away", "session=%s model=%s lag_s=%.1f", s->id, s->model, (double)lag / 1000);
    session_count(s, "brrd_stream_overloads_total", NULL, 1);
    s->shed = true;
    s->overloads++;
    s->sink->failed(s->owner, &err, "OVERLOADED");
}

/* True if the session waits for the device longer than limits.lag allows. */
static bool is_late(struct session *s, int64_t now) {
    int64_t limit = s->all->config.lag_ms;
    if ((!s->waiting && !s->overloads) || limit <= 0 || !s->sink || s->shed || s->stage >= SESSION_FINISHING ||
        !live_stream_open(s->stream)->realtime)
        return false;
    if (session_lag_ms(s, now) > limit)
        return true;
    if (now - s->resumed_ms > limit) /* before that its samples cannot have waited for so long */
        s->overloads = 0;
    return false;
}

static int by_newest(const void *a, const void *b) {
    return order_i64((*(struct session *const *)b)->epoch, (*(struct session *const *)a)->epoch);
}

void sessions_shed(struct sessions *all, int64_t now) {
    int n = 0;
    int64_t longest = 0;
    OWNED_MEMORY struct session **late = NULL;
    for (struct session *s = all->first; s; s = s->next_session) {
        session_excuse_device(s, now);
        if (!is_late(s, now) || (!late && !(late = calloc(map_count(all->by_id), sizeof(*late)))))
            continue;
        int64_t lag = session_lag_ms(s, now);
        late[n++] = s;
        longest = lag > longest ? lag : longest;
    }
    bool falls = longest <= all->longest_lag_ms - LAG_FALLS_MS;
    all->longest_lag_ms = longest;
    if (!n || falls)
        return;
    qsort(late, (size_t)n, sizeof(*late), by_newest);
    for (int i = 0; i < 1 + n / SHED_SHARE; i++)
        shed(late[i], now);
}
