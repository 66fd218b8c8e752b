/* The models that serve, as their cards show them. */

#include "daemon/status/gather_parts.h"

/* "cuda:0, cuda:1" */
static const char *devices_of(const struct gather *g, const struct served_model *m, struct status *to) {
    const char *names = "";
    for (int i = 0; i < device_set_count(g->source.devices); i++)
        if (m->devices >> i & 1) {
            const char *name = device_set_name(g->source.devices, i);
            char *more = *names ? arena_printf(&to->arena, "%s, %s", names, name) : arena_strdup(&to->arena, name);
            names = more ? more : names;
        }
    return names;
}

static int count_streams(const struct status *to, const char *model) {
    int n = 0;
    for (int i = 0; i < to->n_streams + to->n_folded; i++) {
        const struct status_stream *s = &to->streams[i];
        n += *s->bed.session_id && !s->bed.ended_ms && !strcmp(s->bed.model, model);
    }
    return n;
}

void gather_models(const struct gather *g, struct status *to) {
    int n = models_count(g->source.models);
    to->models = arena_alloc(&to->arena, ((size_t)n + 1) * sizeof *to->models);
    for (int i = 0; to->models && i < n; i++) {
        const struct served_model *m = models_at(g->source.models, i);
        struct live_opened *opened = m->opened ? arena_alloc(&to->arena, sizeof *opened) : NULL;
        struct status_model *out = &to->models[to->n_models++];
        *out = (struct status_model){*m, devices_of(g, m, to), count_streams(to, m->name)};
        if (opened)
            *opened = *m->opened;
        out->served.opened = opened;
    }
}
