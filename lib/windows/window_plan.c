/* Saying beforehand, from the header and the labels alone, what a cache file will hold. */

#include "eeg/channels.h"
#include "eeg/dsp.h"
#include "windows/window_builder.h"

struct outline {
    struct window_span *segments, *held; /* (builder.n_segments) at most */
    int n_segments, n_held;
};

static void add_span(struct window_span *spans, int *n, struct window_span span, bool merge) {
    if (span.first >= span.end)
        return; /* too short for a sample at 256 Hz */
    if (merge && *n && spans[*n - 1].end == span.first)
        spans[*n - 1].end = span.end;
    else
        spans[(*n)++] = span;
}

/* The segments and held gaps that the frontend will make of the file's segments. */
static int outline(const struct builder *b, const struct channels *c, struct outline *o, struct err *err) {
    int64_t up, down, position = 0, first = 0, fill = frontend_fill_gap(&b->request->frontend, c->rate_hz);
    int rc;
    bool inside = false;
    if ((rc = dsp_ratio(c->rate_hz, &up, &down, err)))
        return rc;
    o->segments = calloc((size_t)b->n_segments + 1, sizeof *o->segments);
    o->held = calloc((size_t)b->n_segments + 1, sizeof *o->held);
    if (!o->segments || !o->held)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d segments", b->n_segments);
    for (int s = 0; s < b->n_segments; s++) {
        int64_t start = 0, end = position;
        if ((rc = builder_segment_start(&b->segments[s], c->rate_hz, position, &start, err)))
            return rc;
        position = start + b->segments[s].n_records * c->samples_per_record;
        if (inside && start - end <= fill) {
            add_span(o->held, &o->n_held,
                     (struct window_span){builder_output_at(end, up, down), builder_output_at(start, up, down)}, true);
            continue;
        }
        if (inside)
            add_span(o->segments, &o->n_segments,
                     (struct window_span){builder_output_at(first, up, down), builder_output_at(end, up, down)}, false);
        inside = true;
        first = start;
    }
    if (inside)
        add_span(o->segments, &o->n_segments,
                 (struct window_span){builder_output_at(first, up, down), builder_output_at(position, up, down)}, false);
    return 0;
}

/* A request that outlives its maker's texts. */
struct order {
    struct window_build request;
    char pinned[DIGEST_HEX_SIZE]; /* in the request's cache, or "" */
    char texts[];
};

static void release_order(void *ctx) {
    struct order *o = ctx;
    if (*o->pinned)
        cache_unpin(o->request.cache, o->pinned);
    *o->pinned = '\0';
}

static int run_order(void *ctx, char *ret_path, unsigned long size, struct err *err) {
    struct order *o = ctx;
    bool skipped = false;
    int rc = builder_run(&o->request, ret_path, size, &skipped, o->pinned, err);
    if (rc)
        release_order(o);
    else if (skipped)
        rc = err_set(err, ERR_DATA_LOSS, "its labels went away after the data were indexed; submit the job again");
    return rc;
}

int window_replan(const struct window_build *request, const struct recording_facts *facts, struct recording **ret,
                  struct err *err) {
    const char *const texts[] = {request->recording_path, request->cache_dir,       request->frontend.montage, request->labels,
                                 request->unlabeled,      request->frontend.rename, request->frontend.unit};
    size_t size = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        size += texts[i] ? strlen(texts[i]) + 1 : 0;
    struct order *o = malloc(sizeof *o + size);
    if (!o)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a recording");
    o->request = *request;
    *o->pinned = '\0';
    const char **const to[] = {&o->request.recording_path, &o->request.cache_dir, &o->request.frontend.montage,
                               &o->request.labels,         &o->request.unlabeled, &o->request.frontend.rename,
                               &o->request.frontend.unit};
    char *at = o->texts;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!texts[i])
            continue;
        size_t bytes = strlen(texts[i]) + 1;
        memcpy(at, texts[i], bytes);
        *to[i] = at;
        at += bytes;
    }
    return recording_plan(facts, &(struct recording_loader){run_order, release_order, free, o}, ret, err);
}

static void outline_done(struct outline *o) {
    FREE_MEMBERS(*o, segments, held);
    *o = (struct outline){0};
}

static int survey(struct builder *b, struct channels *c, struct outline *o, struct err *err) {
    int rc = builder_choose(b, c, err);
    return rc ? rc : outline(b, c, o, err);
}

/* Reads header and labels. */
static int plan_from_source(struct builder *b, struct recording **ret, struct err *err) {
    OWNED(channels_done) struct channels c = {0};
    OWNED(outline_done) struct outline o = {0};
    struct recording_facts facts = {0};
    int rc;
    if (!b->edf && (rc = builder_open_whole(b, false, err)))
        return rc;
    if ((rc = survey(b, &c, &o, err)) && b->head) { /* nobody has checked a head: the whole file decides */
        channels_done(&c);
        outline_done(&o);
        rc = builder_open_whole(b, false, err);
        rc = rc ? rc : survey(b, &c, &o, err);
    }
    if (rc)
        return rc;
    b->end = o.n_segments ? o.segments[o.n_segments - 1].end : 0;
    if ((rc = builder_facts(b, c.note, &facts, err)))
        return rc;
    facts.channels = c.n_outputs;
    facts.columns = frontend_columns(b->request->frontend.normalize, c.n_outputs);
    COPY_MEMBERS(facts, o, segments, n_segments, held, n_held);
    rc = window_replan(b->request, &facts, ret, err);
    return rc;
}

/* What was made of the whole file before says more than a head that nobody has checked. False when there is nothing. */
static bool plan_from_cache(struct builder *b, struct recording **ret, int *ret_rc, struct err *err) {
    const struct window_build *r = b->request;
    char path[BUILDER_PATH_BYTES];
    struct recording *built = NULL;
    struct recording_facts facts;
    if (!b->head || r->rebuild || builder_path(r->cache_dir, b->key, path, sizeof path, NULL) || !builder_is_cached(path, b->key) ||
        recording_open(path, &built, NULL))
        return false;
    recording_facts(built, &facts);
    *ret_rc = window_replan(r, &facts, ret, err);
    recording_close(built);
    return true;
}

static int plan_once(struct builder *b, struct recording **ret, bool *ret_skipped, struct err *err) {
    int rc = builder_prepare(b, ret_skipped, err);
    if (rc || *ret_skipped || plan_from_cache(b, ret, &rc, err))
        return rc;
    return plan_from_source(b, ret, err);
}

int window_plan(const struct window_build *request, struct recording **ret, bool *ret_skipped, struct err *err) {
    bool skipped = false, again = true;
    int rc = 0;
    for (int i = 0; i < BUILDER_TRIES && again; i++) {
        struct builder b = {.request = request};
        rc = plan_once(&b, ret, &skipped, err);
        again = b.again;
        builder_done(&b);
    }
    if (rc)
        return err_of_file(err, request->recording_path, fsio_basename(request->recording_path));
    *ret_skipped = skipped;
    return 0;
}
