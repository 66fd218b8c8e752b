/* What a reader may see. */

#include "base/principal.h"
#include "daemon/page/page.h"
#include "trust/token.h"

bool page_sees_bed(const struct page_view *v, const char *principal, const char *bed) {
    return token_sees_bed(&(struct token_sight){v->all, v->principal, v->names}, principal, bed);
}

bool page_sees(const struct page_view *v, const struct status_stream *s) { return page_sees_bed(v, s->bed.principal, s->bed.name); }

bool page_sees_job(const struct page_view *v, const char *owner) {
    return v->all || !*owner || principal_is_same(owner, v->principal);
}

bool page_sees_alarm(const struct page_view *v, const struct alarm *a) { return page_sees_bed(v, a->principal, a->bed); }

bool page_answers(const struct page_view *v, const char *principal, const char *bed) {
    return v->answers && page_sees_bed(v, principal, bed) && (!v->names || token_names_match(v->names, bed));
}

static uint64_t mix(uint64_t hash, const char *text) {
    for (const char *p = text; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211u; /* FNV-1a */
    return hash;
}

/* What of an alarm the forms and lists show. */
static uint64_t mix_alarm(uint64_t hash, const struct alarm *a, int64_t boot_ms) {
    const bool silent = alarm_is_silent(a, boot_ms), waiting = alarm_is_waiting(a);
    const char *silencer = silent ? alarm_author_name(&a->silenced) : "";
    const unsigned bits = waiting | (unsigned)alarm_is_open(a) << 1 | (unsigned)a->cut << 2 | (unsigned)a->status << 3;
    hash = mix(mix(mix(mix(hash, a->id), alarm_mark_name(a->mark)), a->note), silencer);
    hash ^= (uint64_t)(silent ? a->silent_ms : 0) ^ a->blind;
    return (hash ^ bits ^ (uint64_t)alarm_sound(a, boot_ms) << 4 ^ (uint64_t)a->step << 8) * 1099511628211u;
}

const struct status_stream *page_find_stream(const struct page_view *v, const char *id) {
    for (int i = 0; i < v->status->n_streams + v->status->n_folded; i++)
        if (*id && !strcmp(v->status->streams[i].bed.session_id, id) && page_sees(v, &v->status->streams[i]))
            return &v->status->streams[i];
    return NULL;
}

uint64_t page_order(const struct page_view *v) {
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < v->status->n_streams; i++) {
        const struct status_stream *s = &v->status->streams[i];
        if (!page_sees(v, s))
            continue;
        hash = mix(mix(hash, s->key), s->bed.rule);
        hash = (hash ^ (unsigned)s->mood) * 1099511628211u;
        if (s->alarm)
            hash = mix_alarm(hash, s->alarm, v->status->boot_ms);
    }
    return hash;
}

uint64_t page_alarms_order(const struct page_view *v) {
    uint64_t hash = 14695981039346656037u;
    for (int i = 0; i < v->status->n_alarms; i++)
        if (page_sees_alarm(v, v->status->alarms[i]))
            hash = mix_alarm(hash, v->status->alarms[i], v->status->boot_ms);
    return hash;
}
