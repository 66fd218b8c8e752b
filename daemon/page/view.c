/* What a reader may see. */
#include <string.h>

#include "base/principal.h"
#include "daemon/page/page.h"

bool page_sees(const struct page_view *v, const struct status_stream *s) {
    return v->all || principal_is_same(s->principal, v->principal);
}

bool page_sees_job(const struct page_view *v, const char *owner) {
    return v->all || !*owner || principal_is_same(owner, v->principal);
}

const struct status_stream *page_find_stream(const struct page_view *v, const char *id) {
    for (int i = 0; i < v->status->n_streams; i++)
        if (!strcmp(v->status->streams[i].id, id) && page_sees(v, &v->status->streams[i]))
            return &v->status->streams[i];
    return NULL;
}

uint64_t page_order(const struct page_view *v) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (int i = 0; i < v->status->n_streams; i++) {
        const struct status_stream *s = &v->status->streams[i];
        if (!page_sees(v, s))
            continue;
        for (const char *p = s->id; *p; p++)
            hash = (hash ^ (unsigned char)*p) * 1099511628211u;
        hash = (hash ^ (unsigned)s->mood) * 1099511628211u;
    }
    return hash;
}
