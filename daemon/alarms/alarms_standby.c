/* Beds that are not monitored for a while. */
#include "daemon/alarms/alarms_parts.h"

static int standbys_of(const struct alarms *all, const char *by) {
    int n = 0;
    void *at;
    for (size_t cursor = 0; alarms_each(all->standbys, &cursor, &at);)
        n += ((const struct standby *)at)->until_ms && !strcmp(((const struct standby *)at)->author.by, by);
    return n;
}

int alarms_standby(struct alarms *all, const char *bed, int64_t until_ms, const struct alarm_author *author,
                   const struct alarms_now *now, struct err *err) {
    struct standby *s = map_get(all->standbys, bed);
    const char *key;
    void *at;
    if (!*bed)
        return err_set(err, ERR_INVALID, "standby needs the name of a bed");
    if (until_ms && (until_ms <= now->wall_ms || until_ms > now->wall_ms + ALARMS_STANDBY_MS))
        return err_set(err, ERR_INVALID, "standby ends within 24 h from now; the end given is %.0f min from now",
                       (double)(until_ms - now->wall_ms) / 60000);
    if (until_ms == (s ? s->until_ms : 0) && !all->restoring) /* else its author counts against those of other daemons */
        return 0;
    if (until_ms && !(s && s->until_ms) && !all->restoring && /* earlier versions had no shares */
        standbys_of(all, author->by) >= ALARMS_STANDBYS / 4)
        return err_set(err, ERR_EXHAUSTED, "%s has %d beds in standby already; `brrctl alarms standby BED off` ends one",
                       author->by, ALARMS_STANDBYS / 4);
    const struct map *map = all->standbys;
    for (size_t cursor = 0; !s && map_count(map) == ALARMS_STANDBYS && map_next(map, &cursor, &key, &at);)
        if (!((const struct standby *)at)->until_ms)
            free(map_remove(all->standbys, key));
    if (!s && (!(s = calloc(1, sizeof *s)) || map_put(all->standbys, bed, s, NULL))) {
        free(s);
        return err_set(err, ERR_EXHAUSTED, "%d beds are in standby already", ALARMS_STANDBYS);
    }
    *s = (struct standby){.author = *author,
                          .until_ms = until_ms,
                          .until_boot_ms = until_ms ? now->boot_ms + until_ms - now->wall_ms
                                                    : alarms_boot_of(author->at_ms, now) + ALARMS_STANDBY_MS};
    alarms_write(all,
                 &(struct alarms_row){.kind = ALARMS_ROW_STANDBY, .bed = bed, .until_ms = until_ms, .author = author, ROW_AT(now)});
    return 0;
}

int64_t alarms_in_standby(const struct alarms *all, const char *bed, const struct alarms_now *now,
                          const struct alarm_author **ret_author) {
    const struct standby *s = map_get(all->standbys, bed);
    if (!s || now->boot_ms >= s->until_boot_ms)
        return 0;
    if (ret_author)
        *ret_author = &s->author;
    return s->until_ms;
}

bool alarms_stands_by(const struct alarms *all, enum alarm_kind kind, const char *principal, const char *bed) {
    const struct standby *s = map_get(all->standbys, bed);
    const bool of_bed = kind != ALARM_UNANSWERED && kind != ALARM_RECEIVER;
    return of_bed && s && s->until_ms && !alarms_is_anothers(all, principal, bed);
}

void alarms_forget_standbys(struct alarms *all, const struct alarms_now *now) {
    const char *bed;
    void *at;
    for (size_t cursor = 0; map_next(all->standbys, &cursor, &bed, &at);) {
        struct standby *s = at;
        if (now->boot_ms < s->until_boot_ms)
            continue;
        all->changed = true;
        if (s->until_ms) /* it ended the one before it, as somebody would who ends it */
            s->until_boot_ms = alarms_boot_of(s->author.at_ms, now) + ALARMS_STANDBY_MS;
        s->until_ms = 0;
        if (now->boot_ms >= s->until_boot_ms)
            free(map_remove(all->standbys, bed));
    }
}

void alarms_merge_standbys(struct alarms *all, struct alarms *past) {
    const char *bed;
    void *at;
    for (size_t cursor = 0; map_next(past->standbys, &cursor, &bed, &at);) {
        struct standby *s = map_get(all->standbys, bed), *before = at;
        if (s && alarm_author_is_later(&before->author, &s->author))
            *s = *before;
        else if (!s && !map_put(all->standbys, bed, at, NULL))
            map_remove(past->standbys, bed);
    }
}
