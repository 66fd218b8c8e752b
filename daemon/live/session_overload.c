/* Live sessions that wait too long for the device (limits.lag): which of them are shed, and when they should come back. */

#include "base/log.h"
#include "base/order.h"
#include "daemon/live/session_parts.h"

enum { SHED_SHARE = 20, LAG_FALLS_MS = 50 /* in a second, or it does not fall */ };

static int64_t overload_retry_ms(const struct session *s) {
    int64_t pause = SESSION_RETRY_MS, most = s->all->config.resume_ttl_ms / 2; /* later it may be gone */
    most = most < SESSION_LONGEST_RETRY_MS ? most : SESSION_LONGEST_RETRY_MS;
    for (int i = 1; i < s->shown.overloads && pause < most; i++)
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

int64_t session_wait_ms(const struct session *s) {
    const int64_t left_ms = s->shown.shed ? s->shown.shed_ms + overload_retry_ms(s) - clock_ms() : 0;
    return left_ms > 0 ? left_ms : 0;
}

int64_t sessions_shed_wait_ms(const struct sessions *all, uint32_t owner, int64_t now_ms) {
    int64_t left_ms = 0;
    for (int i = 0; i < SESSIONS_SHED; i++)
        if (all->sheds[i].owner == owner && all->sheds[i].until_ms - now_ms > left_ms)
            left_ms = all->sheds[i].until_ms - now_ms;
    return left_ms;
}

/* In place of the one that waits least. */
static void hold_off(struct sessions *all, uint32_t owner, int64_t until_ms) {
    int least = 0;
    for (int i = 1; i < SESSIONS_SHED; i++)
        least = all->sheds[i].until_ms < all->sheds[least].until_ms ? i : least;
    all->sheds[least].owner = owner;
    all->sheds[least].until_ms = until_ms;
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
    s->shown.shed = true;
    s->shown.shed_ms = now;
    s->shown.overloads++;
    hold_off(s->all, live_stream_open(s->stream)->owner, now + overload_retry_ms(s));
    s->sink->failed(s->owner, &err, "OVERLOADED");
}

/* True if the session waits for the device longer than limits.lag allows. */
static bool is_late(struct session *s, int64_t now) {
    int64_t limit = s->all->config.lag_ms;
    if ((!s->flow.waiting && !s->shown.overloads) || limit <= 0 || !s->sink || s->shown.shed || s->stage >= SESSION_FINISHING ||
        !live_stream_open(s->stream)->realtime)
        return false;
    if (session_lag_ms(s, now) > limit)
        return true;
    if (now - s->shown.resumed_ms > limit) /* before that its samples cannot have waited for so long */
        s->shown.overloads = 0;
    return false;
}

static int by_share(const void *a, const void *b) {
    const struct session *l = *(struct session *const *)a, *r = *(struct session *const *)b;
    return order_then(order_i64(r->shown.above, l->shown.above), order_i64(r->epoch, l->epoch)); /* the newest first */
}

static int64_t used_us(const struct session *s) { return atomic_load(&live_stream_turn(s->stream)->owner_us); }

/* Owners who took twice the time of another one are above their share. */
static void compare_owners(struct session *const *late, int n) {
    double least = INFINITY;
    for (int i = 0; i < n; i++)
        least = used_us(late[i]) > 0 ? fmin(least, (double)used_us(late[i])) : least; /* one that has just begun took nothing yet */
    for (int i = 0; i < n; i++)
        late[i]->shown.above = (double)used_us(late[i]) >= 2 * least ? (int)log2((double)used_us(late[i]) / least) : 0;
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
    compare_owners(late, n);
    qsort(late, (size_t)n, sizeof(*late), by_share);
    for (int i = 0; i < 1 + n / SHED_SHARE; i++)
        shed(late[i], now);
}
