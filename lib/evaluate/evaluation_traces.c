/* The traces of an evaluation: computed, taken from an earlier attempt, kept in memory or in files. */
#include "evaluate/evaluation_state.h"

#include "detect/detector.h"

enum { WAIT_MS = 20, ROOM_SHARE = 8, TRACE_SHARE = 4 };
static const int64_t most_room = 256 << 20; /* bytes of traces that stay in memory */

/* Of samples [first, first + n). */
struct values {
    int64_t first, n;
    const float *p;
};

/* Samples outside of the segments have no value and no place. p: NULL = zeros. */
static int put(const struct trace *t, struct place *place, float *to, const struct values *v, struct err *err) {
    const struct window_span *segments = t->info.segments;
    int64_t first = v->first, end = v->first + v->n;
    for (int64_t part; first < end; first += part) {
        for (; place->segment < t->info.n_segments && first >= segments[place->segment].end; place->segment++)
            place->begin += segments[place->segment].end - segments[place->segment].first + 1;
        if (place->segment == t->info.n_segments)
            return end > t->info.samples
                       ? err_set(err, ERR_INTERNAL, "%s: trace longer than the recording", t->entry->relative_path)
                       : 0;
        const struct window_span *s = &segments[place->segment];
        part = (first < s->first ? s->first : s->end) - first;
        part = part < end - first ? part : end - first;
        float *at = to + place->begin + (first - s->first);
        if (first >= s->first && v->p)
            memcpy(at, v->p + (first - v->first), (size_t)part * sizeof *at);
        else if (first >= s->first)
            memset(at, 0, (size_t)part * sizeof *at);
    }
    return 0;
}

/* Of the recording in the seat; recordings that are left out move the others. */
static struct trace *trace_in(const struct seat *seat) {
    struct evaluation *e = seat->evaluation;
    return &e->traces[flight_number(e->flight, (int)(seat - e->seats))];
}

static int keep_trace(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    struct seat *seat = ctx;
    const struct trace *t = trace_in(seat);
    return put(t, &seat->place, t->p, &(struct values){first, n, p}, err);
}

static int keep_judged(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    struct seat *seat = ctx;
    const struct trace *t = trace_in(seat);
    return put(t, &seat->alarm_place, t->alarm_p, &(struct values){first, n, p}, err);
}

static int pass_gap(void *ctx, int64_t first, int64_t n, struct err *err) {
    (void)ctx, (void)first, (void)n, (void)err;
    return 0;
}

static int keep_alarm(void *ctx, const struct timeline_alarm *alarm, struct err *err) {
    struct trace *t = trace_in(ctx);
    if (!alarm->on)
        return 0;
    double *alarms = realloc(t->alarms_s, (size_t)(t->n_alarms + 1) * sizeof *alarms);
    if (!alarms)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory for alarms", t->entry->relative_path);
    t->alarms_s = alarms;
    alarms[t->n_alarms++] = (double)alarm->known / FRONTEND_RATE_HZ;
    return 0;
}

static struct score_span *segments_of(const struct recording_info *info) {
    struct score_span *spans = malloc(((size_t)info->n_segments + 1) * sizeof *spans);
    for (int s = 0; spans && s < info->n_segments; s++)
        spans[s] = (struct score_span){info->segments[s].first, info->segments[s].end};
    return spans;
}

static void put_events(const struct window_span *spans, int n, struct score_event *ret) {
    for (int i = 0; i < n; i++)
        ret[i] = (struct score_event){(double)spans[i].first / FRONTEND_RATE_HZ, (double)spans[i].end / FRONTEND_RATE_HZ};
}

int evaluation_view(const struct manifest_entry *entry, struct score_trace *ret, struct err *err) {
    struct recording_info info;
    recording_info(entry->recording, &info);
    struct score_span *segments = segments_of(&info);
    const size_t events = (size_t)info.n_seizures + (size_t)info.n_unknown + (size_t)info.n_held + (size_t)info.n_segments;
    struct score_event *ref = calloc(events + 1, sizeof *ref);
    if (!ref || !segments) {
        free(ref);
        free(segments);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the reference of %s", entry->relative_path);
    }
    put_events(info.seizures, info.n_seizures, ref);
    put_events(info.unknown, info.n_unknown, ref + info.n_seizures);
    struct score_event *gaps = ref + info.n_seizures + info.n_unknown;
    put_events(info.held, info.n_held, gaps);
    int n_gaps = info.n_held;
    for (int s = 1; s < info.n_segments; s++)
        put_events(&(struct window_span){info.segments[s - 1].end, info.segments[s].first}, 1, &gaps[n_gaps++]);
    *ret = (struct score_trace){.name = entry->relative_path,
                                .subject = entry->patient,
                                .n = score_trace_length(segments, info.n_segments),
                                .duration_s = (double)info.samples / FRONTEND_RATE_HZ,
                                .ref = ref,
                                .n_ref = info.n_seizures,
                                .unsure = ref + info.n_seizures,
                                .n_unsure = info.n_unknown,
                                .gaps = gaps,
                                .n_gaps = n_gaps,
                                .segments = segments,
                                .n_segments = info.n_segments};
    return 0;
}

void evaluation_view_done(struct score_trace *view) {
    free((void *)(uintptr_t)view->ref);
    free((void *)(uintptr_t)view->segments);
    *view = (struct score_trace){0};
}

static int add_trace(struct evaluation *e, int64_t index, struct err *err) {
    const struct manifest_entry *entry = manifest_entry(e->config.manifest, index);
    struct score_trace *view = &e->views[e->n_traces];
    int rc = evaluation_view(entry, view, err);
    if (rc)
        return rc;
    e->traces[e->n_traces] = (struct trace){.entry = entry, .index = index, .loaded = -1, .n = view->n};
    recording_info(entry->recording, &e->traces[e->n_traces++].info);
    return 0;
}

static void trace_done(struct trace *t) { FREE_MEMBERS(*t, p, alarm_p, events, alarms_s, lost); }

void evaluation_traces_done(struct evaluation *e) {
    for (int i = 0; i < e->n_traces; i++) {
        trace_done(&e->traces[i]);
        evaluation_view_done(&e->views[i]);
    }
    FREE_MEMBERS(*e, traces, views);
    trace_drop(&e->shown);
    if (e->spooled && !e->config.keep)
        fsio_remove_tree(e->folder, NULL);
}

int evaluation_drop(struct evaluation *e, const struct err *why, struct err *err) {
    struct trace *t = &e->traces[e->current];
    if (!e->config.bad) {
        if (err)
            *err = *why;
        return why->code;
    }
    int rc = e->config.bad(e->config.ctx, t->index, why, err);
    if (rc)
        return rc;
    trace_done(t);
    evaluation_view_done(&e->views[e->current]);
    e->n_traces--;
    memmove(t, t + 1, (size_t)(e->n_traces - e->current) * sizeof *t);
    memmove(&e->views[e->current], &e->views[e->current + 1], (size_t)(e->n_traces - e->current) * sizeof *e->views);
    return 0;
}

/* The present recording cannot be loaded. Ranks go on with their others, and drop it together (collect). */
static int leave_out(void *ctx, int64_t i, struct err *why, struct err *err) {
    struct evaluation *e = ctx;
    struct trace *t = &e->traces[i];
    err_wrap(why, "%s", t->entry->relative_path);
    if (e->ranks == 1)
        return evaluation_drop(e, why, err);
    if (!(t->lost = malloc(sizeof *t->lost)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for an evaluation");
    *t->lost = *why;
    e->current++;
    return 0;
}

/* Each recording to the rank that has the fewest samples so far. */
static int share_traces(struct evaluation *e, struct err *err) {
    OWNED_MEMORY int64_t *samples = calloc((size_t)e->ranks, sizeof *samples);
    if (!samples)
        return err_set(err, ERR_EXHAUSTED, "out of memory for an evaluation");
    for (int i = 0; i < e->n_traces; i++) {
        int least = 0;
        for (int r = 1; r < e->ranks; r++)
            least = samples[r] < samples[least] ? r : least;
        e->traces[i].owner = least;
        samples[least] += e->traces[i].info.samples;
    }
    return 0;
}

static int64_t trace_bytes(const struct evaluation *e, const struct trace *t) {
    return t->n * (int64_t)sizeof *t->p * (e->config.alarm_hop ? 2 : 1);
}

/* Gaps take none, and the manifest bounds the duration. */
static int check_length(const struct evaluation *e, const struct trace *t, struct err *err) {
    int64_t bytes = trace_bytes(e, t), most = e->config.memory_bytes / TRACE_SHARE;
    if (most && bytes > most)
        return err_set(err, ERR_RANGE,
                       "its trace takes %lld MiB, more than a quarter of the %lld MiB that may be used (limits.memory); split it",
                       (long long)(bytes >> 20), (long long)(e->config.memory_bytes >> 20));
    return 0;
}

/* On a thread of the loader. */
static int tell_loaded(void *ctx, int64_t i, struct err *err) {
    const struct evaluation *e = ctx;
    return e->config.loaded(e->config.ctx, e->entries[i], err);
}

static int start_loader(struct evaluation *e, struct err *err) {
    OWNED_MEMORY struct recording **recordings = calloc((size_t)e->n_traces + 1, sizeof *recordings);
    e->entries = calloc((size_t)e->n_traces + 1, sizeof *e->entries);
    if (!recordings || !e->entries)
        return err_set(err, ERR_EXHAUSTED, "out of memory for an evaluation");
    struct loader_work work = {
        .recordings = recordings, .workers = e->config.workers, .loaded = e->config.loaded ? tell_loaded : NULL, .ctx = e};
    for (int i = 0; i < e->n_traces; i++) {
        struct trace *t = &e->traces[i];
        if ((e->config.kept && e->config.kept[t->index]) || t->owner != e->rank || check_length(e, t, NULL))
            continue;
        recordings[work.n] = t->entry->recording;
        e->entries[work.n] = t->index;
        t->loaded = (int)work.n++;
    }
    return loader_start(&work, &e->loader, err);
}

int evaluation_trace_path(const struct evaluation_config *config, int64_t entry, char *ret_path, size_t size, int64_t *ret_n,
                          struct err *err) {
    const struct recording *rec = manifest_entry(config->manifest, entry)->recording;
    const struct trace_origin origin = {recording_key(rec), detector_info(config->detector)->sha256, config->alarm_hop};
    struct recording_info info;
    recording_info(rec, &info);
    *ret_n = info.n_segments ? info.n_segments - 1 : 0; /* as score_trace_length */
    for (int s = 0; s < info.n_segments; s++)
        *ret_n += info.segments[s].end - info.segments[s].first;
    return trace_path(config->directory, &origin, ret_path, size, err);
}

int evaluation_read_trace(const struct evaluation *e, int index, struct trace_values *ret, struct err *err) {
    const struct trace *t = &e->traces[index];
    char path[TRACES_PATH];
    int64_t n;
    int rc = evaluation_trace_path(&e->config, t->index, path, sizeof path, &n, err);
    return rc ? rc : trace_read(path, t->n, ret, err);
}

/* Reads the traces of a recording from their file, unless they are in memory or were read last. */
static int show(struct evaluation *e, int i, struct err *err) {
    if (e->traces[i].p || e->shown_index == i)
        return 0;
    trace_drop(&e->shown);
    e->shown_index = -1;
    int rc = evaluation_read_trace(e, i, &e->shown, err);
    e->shown_index = rc ? -1 : i;
    return rc;
}

int evaluation_trace(struct evaluation *e, int i, const float **ret_p, struct err *err) {
    const struct trace *t = &e->traces[i];
    int rc = show(e, i, err);
    if (rc)
        return rc;
    *ret_p = t->p ? t->p : e->shown.p;
    return 0;
}

int evaluation_alarm_trace(struct evaluation *e, int i, const float **ret_p, struct err *err) {
    int rc = show(e, i, err);
    if (rc)
        return rc;
    const float *p = e->traces[i].p ? e->traces[i].alarm_p : e->shown.alarm_p;
    if (!p)
        return err_set(err, ERR_INTERNAL, "%s: no alarm trace was kept", e->traces[i].entry->relative_path);
    *ret_p = p;
    return 0;
}

/* n samples of one probability and label; the bits of their sum one by one. */
static void add_alike(struct evaluation_samples *sums, float p, bool seizure, int64_t n) {
    const double q = fmin(fmax((double)p, 1e-7), 1 - 1e-7), share = seizure ? log(q) : log1p(-q);
    for (int64_t i = 0; i < n; i++)
        sums->loss -= share;
    sums->count += n;
    auroc_add_run(&sums->auroc, p, seizure, (uint64_t)n);
}

/* Whether sample i is in a span, from number *at on; *until: where that changes, if it is sooner. */
static bool is_among(const struct window_span *spans, int n, int64_t i, int *at, int64_t *until) {
    while (*at < n && i >= spans[*at].end)
        ++*at;
    const bool in = *at < n && i >= spans[*at].first;
    const int64_t change = *at == n ? *until : in ? spans[*at].end : spans[*at].first;
    *until = change < *until ? change : *until;
    return in;
}

void evaluation_add_samples(struct evaluation_samples *sums, const struct recording_info *info, const float *p) {
    int at_seizure = 0, at_masked = 0;
    for (int s = 0; s < info->n_segments; s++, p++)
        for (int64_t i = info->segments[s].first, until; i < info->segments[s].end; i = until) {
            until = info->segments[s].end;
            const bool seizure = is_among(info->seizures, info->n_seizures, i, &at_seizure, &until);
            const bool masked = is_among(info->masked, info->n_masked, i, &at_masked, &until);
            for (const float *end = p + (until - i), *same; p < end; p = same) {
                for (same = p + 1; same < end && *same == *p;)
                    same++;
                if (!masked && !isnan(*p))
                    add_alike(sums, *p, seizure, same - p);
            }
        }
}

int evaluation_add_up(struct evaluation *e, const struct trace *t, const float *p, struct err *err) {
    evaluation_add_samples(&e->samples, &t->info, p);
    return e->config.temperature ? temperature_add(&e->seconds, &t->info, p, err) : 0;
}

/* The trace of an earlier attempt. */
static int take_kept(struct evaluation *e, struct err *err) {
    struct trace *t = &e->traces[e->current];
    const float *p = NULL;
    int rc = evaluation_trace(e, e->current, &p, err);
    if (rc)
        return rc;
    size_t bytes = (size_t)e->shown.n_alarms * sizeof *t->alarms_s;
    if (!(t->alarms_s = malloc(bytes + 1)))
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory for alarms", t->entry->relative_path);
    if (bytes)
        memcpy(t->alarms_s, e->shown.alarms_s, bytes);
    t->n_alarms = (int)e->shown.n_alarms;
    rc = evaluation_add_up(e, t, p, err);
    e->current += !rc;
    return rc;
}

static int spool(struct evaluation *e, struct trace *t, struct err *err) {
    const struct trace_values values = {SAME_MEMBERS(*t, p, alarm_p, n, alarms_s, n_alarms)};
    char path[TRACES_PATH];
    int64_t n;
    int rc;
    e->spooled = true;
    if ((rc = evaluation_trace_path(&e->config, t->index, path, sizeof path, &n, err)) || (rc = fsio_mkdirs(e->folder, err)) ||
        (rc = trace_write(path, &values, err)))
        return rc;
    FREE_MEMBERS(*t, p, alarm_p);
    t->p = t->alarm_p = NULL;
    return e->config.finished ? e->config.finished(e->config.ctx, t->index, err) : 0;
}

int evaluation_store(struct evaluation *e, struct trace *t, struct err *err) {
    int64_t bytes = trace_bytes(e, t);
    bool stays = e->held + bytes <= e->room;
    e->held += stays ? bytes : 0;
    return stays ? 0 : spool(e, t, err);
}

static int finish_trace(struct evaluation *e, struct err *err) {
    struct trace *t = &e->traces[e->current];
    int rc = e->ranks == 1 ? evaluation_add_up(e, t, t->p, err) : 0;
    rc = rc ? rc : evaluation_store(e, t, err);
    e->current += !rc;
    return rc;
}

float *evaluation_new_trace(int64_t n) {
    float *p = malloc(((size_t)n + 1) * sizeof *p);
    for (int64_t i = 0; p && i < n; i++)
        p[i] = NAN;
    return p;
}

static int make_timeline(struct evaluation *e, struct trace *t, struct seat *seat, struct timeline **ret, struct err *err) {
    struct timeline_options options = {.alarm_hop = e->config.alarm_hop, .events = &e->config.events, .alarms = e->config.alarms};
    struct timeline_sink sink = {.ctx = seat, .probabilities = keep_trace, .gap = pass_gap, .alarm = keep_alarm};
    *seat = (struct seat){.evaluation = e};
    t->p = evaluation_new_trace(t->n);
    if (e->config.alarm_hop) {
        t->alarm_p = evaluation_new_trace(t->n);
        sink.judged = keep_judged;
    }
    if (!t->p || (e->config.alarm_hop && !t->alarm_p))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the trace of %s", t->entry->relative_path);
    return timeline_new_cached(&detector_info(e->config.detector)->file, t->entry->recording, &options, &sink, ret, err);
}

static enum flight_begun begin_trace(void *ctx, int64_t i, int at, struct timeline **ret, struct err *err) {
    struct evaluation *e = ctx;
    struct trace *t = &e->traces[i];
    const bool alone = !flight_under_way(e->flight);
    if (t->owner != e->rank)
        return FLIGHT_IS_DONE;
    if (check_length(e, t, err))
        return FLIGHT_FLIES;
    if (t->loaded < 0)
        return FLIGHT_IS_DONE;
    if (!alone && e->under_way + trace_bytes(e, t) > most_room)
        return FLIGHT_WAITS;
    const bool ready = !e->config.loaded && recording_ready(t->entry->recording);
    if (!ready && !loader_wait(e->loader, t->loaded, alone ? WAIT_MS : 0))
        return FLIGHT_WAITS; /* still being fetched or decoded */
    if (ready || !loader_result(e->loader, t->loaded, err))
        make_timeline(e, t, &e->seats[at], ret, err);
    e->under_way += *ret ? trace_bytes(e, t) : 0;
    return FLIGHT_FLIES;
}

static int end_trace(void *ctx, int seat, struct timeline *timeline, struct err *err) {
    struct evaluation *e = ctx;
    (void)seat;
    if (timeline) {
        e->under_way -= trace_bytes(e, &e->traces[e->current]);
        return finish_trace(e, err);
    }
    if (e->traces[e->current].owner == e->rank)
        return take_kept(e, err);
    e->current++;
    return 0;
}

int evaluation_open(struct evaluation *e, struct err *err) {
    const struct evaluation_config *config = &e->config;
    int64_t entries = manifest_count(config->manifest), wanted = 0;
    int rc;
    for (int64_t i = 0; i < entries; i++)
        wanted += config->role[i] == config->wanted && manifest_entry(config->manifest, i)->recording;
    if (!(e->traces = calloc((size_t)wanted + 1, sizeof *e->traces)) || !(e->views = calloc((size_t)wanted + 1, sizeof *e->views)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for an evaluation");
    e->shown_index = -1;
    e->rank = config->world ? config->world->rank : 0;
    e->ranks = config->world ? config->world->size : 1;
    int64_t share = config->memory_bytes / ROOM_SHARE;
    e->room = config->keep ? 0 : share && share < most_room ? share : most_room;
    if ((rc = fsio_join(e->folder, sizeof e->folder, config->directory, TRACES_FOLDER, err)) ||
        (!config->keep && (rc = fsio_remove_tree(e->folder, err)))) /* what a killed process left there */
        return rc;
    for (int64_t i = 0; i < entries; i++)
        if (config->role[i] == config->wanted && manifest_entry(config->manifest, i)->recording && (rc = add_trace(e, i, err)))
            return rc;
    const struct flight_config flight = {SAME_MEMBERS(*config, detector, stream),
                                         .n = e->n_traces,
                                         .ctx = e,
                                         .begin = begin_trace,
                                         .end = end_trace,
                                         .lost = leave_out,
                                         .shrinks = e->ranks == 1};
    if ((rc = share_traces(e, err)) || (rc = flight_new(&flight, &e->flight, err)))
        return rc;
    return start_loader(e, err);
}

int evaluation_run_windows(struct evaluation *e, struct err *err) { return flight_step(e->flight, err); }
