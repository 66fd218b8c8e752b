/* Who holds a bed of the roster. */
#include "base/principal.h"
#include "daemon/alarms/alarms_parts.h"

enum { TOKENS_AGAIN_MS = 10 * 1000, START_MS = 60 * 1000 };
enum { HOLDER_AGAIN_MS = 24 * 3600 * 1000 }; /* its row is written again: what a start reads is not older than DESK_PAST_MS */

static int named(const struct alarms *all, const char *principal, const char *bed) {
    return all->plan.named ? all->plan.named(all->plan.named_ctx, principal, bed) : -1;
}

bool alarms_holds(const struct alarms *all, const char *principal, const char *bed) {
    const struct holder *h = map_get(all->holders, bed);
    if (!h || !*principal || principal_is_same(h->principal, principal)) /* "": the bed itself, without a stream */
        return h;
    const int by_token = named(all, principal, bed);
    return by_token < 0 ? !*h->principal : by_token;
}

bool alarms_is_anothers(const struct alarms *all, const char *principal, const char *bed) {
    return map_get(all->holders, bed) && !alarms_holds(all, principal, bed);
}

void alarms_held(struct alarms *all, const char *principal, const char *bed, int64_t at_ms, const struct alarms_now *now) {
    struct holder *h = map_get(all->holders, bed);
    if (!h)
        return;
    *h = (struct holder){.seen_boot_ms = now->boot_ms, .written_boot_ms = alarms_boot_of(at_ms, now)};
    str_copy(h->principal, sizeof h->principal, principal);
}

/* Whether an alarm of this bed's patient is open that this caller streamed. */
static bool has_open(const struct alarms *all, const char *principal, const char *bed) {
    bool open = false;
    void *at;
    for (size_t cursor = 0; !open && alarms_each(all->patients, &cursor, &at);) {
        const struct alarm *a = at;
        open = alarm_is_open(a) && a->live && !a->test && !strcmp(a->bed, bed) && principal_is_same(a->principal, principal);
    }
    return open;
}

void alarms_streams(struct alarms *all, const char *principal, const char *bed, int64_t opened_ms, const struct alarms_now *now) {
    struct holder *h = map_get(all->holders, bed);
    if (!h)
        return;
    const bool same = principal_is_same(h->principal, principal);
    const bool asked = same && now->boot_ms - h->asked_boot_ms < TOKENS_AGAIN_MS;
    const int by_token = asked ? 1 : named(all, principal, bed);
    /* just after the daemon's start streams are found in any order */
    const bool earlier = opened_ms < h->opened_ms && now->boot_ms - h->since_boot_ms < START_MS;
    const bool gone = now->boot_ms - h->seen_boot_ms > all->plan.hold_ms;
    const bool left = same || !*h->principal || earlier || (gone && !has_open(all, h->principal, bed));
    if (same && !by_token)
        *h = (struct holder){0};
    if (!by_token || (by_token < 0 && !left))
        return;
    if (!same)
        *h = (struct holder){.opened_ms = opened_ms, .since_boot_ms = now->boot_ms};
    str_copy(h->principal, sizeof h->principal, principal);
    h->seen_boot_ms = now->boot_ms;
    h->asked_boot_ms = asked ? h->asked_boot_ms : now->boot_ms;
    if (by_token > 0 || (h->written_boot_ms && now->boot_ms - h->written_boot_ms < HOLDER_AGAIN_MS))
        return;
    h->written_boot_ms = now->boot_ms;
    alarms_write(all, &(struct alarms_row){.kind = ALARMS_ROW_HOLDER, .bed = bed, .holder = h->principal, ROW_AT(now)});
}
