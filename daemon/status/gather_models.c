/* The models that serve, as their cards show them. */

#include "daemon/status/gather_parts.h"

static void put_rates(const struct alarm_sets *sets, struct status_model *out) {
    for (int i = 0; i < sets->n && i < STATUS_RATES; i++) {
        const struct alarm_set *set = &sets->sets[i];
        out->rates[out->n_rates++] =
            (struct status_rate){.rate = set->rate,
                                 .on = set->rule.on,
                                 .off = set->rule.off,
                                 .sensitivity = set->sensitivity,
                                 .low = set->sensitivity_low,
                                 .high = set->sensitivity_high,
                                 SAME_MEMBERS(*set, false_alarms_per_24h, delay_p50_s, patients, seizures, hours)};
    }
}

static void put_file(struct status *to, const struct live_opened *opened, struct status_model *out) {
    const struct modelfile *f = &opened->info.file;
    out->type = seizure_type_name(f->model.type);
    out->preset = seizure_preset_name(&f->model);
    out->montage = gather_text(to, f->montage);
    out->labels = gather_text(to, f->labels);
    out->init_from = gather_text(to, *f->init_from ? f->init_from : f->init_from_sha256);
    out->note = gather_text(to, opened->note);
    if (montage_channels(f->montage, NULL, &out->channels, NULL))
        out->channels = f->model.in_channels;
    out->most_missing = frontend_is_feature(f->frontend.normalize) ? out->channels - 1 : (int)f->most_missing;
    out->parameters = opened->info.parameters;
    out->memory_bytes = opened->info.memory_bytes;
    out->card = gather_text(to, f->card);
    out->precision = dtype_name(opened->info.precision);
    out->bf16_difference = opened->info.bf16_difference;
    COPY_MEMBERS(*out, *f, step, epoch);
    out->window_s = (double)modelfile_window(f) / FRONTEND_RATE_HZ;
    out->hop_s = (double)modelfile_hop(f) / FRONTEND_RATE_HZ;
    out->on = f->events.on;
    out->off = f->events.off;
    out->bandpass_hz[0] = f->frontend.bandpass_hz[0];
    out->bandpass_hz[1] = f->frontend.bandpass_hz[1];
    out->notch_hz = f->frontend.notch_hz;
    out->prior = f->prior;
    put_rates(&f->alarms, out);
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
                                     .type = "",
                                     .preset = "",
                                     .montage = "",
                                     .labels = "",
                                     .device = devices_of(g, m, to),
                                     .init_from = "",
                                     .note = "",
                                     .card = "",
                                     .precision = "",
                                     .why = gather_text(to, m->err.code ? m->err.message : ""),
                                     .loaded = m->opened != NULL,
                                     .streams = count_streams(to, m->name)};
        if (m->opened)
            put_file(to, m->opened, out);
    }
}
