/* The models that serve, as their cards show them. */

#include "daemon/status/gather_parts.h"

static void put_file(struct status *to, const struct live_opened *opened, struct status_model *out) {
    const struct modelfile *f = &opened->info.file;
    struct detector_info *info = arena_alloc(&to->arena, sizeof *info);
    if (!info)
        return;
    *info = opened->info;
    out->info = info;
    out->note = gather_text(to, opened->note);
    if (montage_channels(f->montage, NULL, &out->channels, NULL))
        out->channels = f->model.in_channels;
    out->most_missing = frontend_is_feature(f->frontend.normalize) ? out->channels - 1 : (int)f->most_missing;
}

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
        struct status_model *out = &to->models[to->n_models++];
        *out = (struct status_model){.name = gather_text(to, m->name),
                                     .ref = gather_text(to, m->ref),
                                     .path = gather_text(to, m->path),
                                     .sha256 = gather_text(to, m->sha256),
                                     .device = devices_of(g, m, to),
                                     .note = "",
                                     .why = gather_text(to, m->err.code ? m->err.message : ""),
                                     .streams = count_streams(to, m->name)};
        if (m->opened)
            put_file(to, m->opened, out);
    }
}
