/* Ranks share the traces of an evaluation by whole recordings, and rank 0 collects them. */

#include "evaluate/evaluation_state.h"

/* Recordings that their ranks could not load are dropped by all. */
static int drop_lost(struct evaluation *e, struct err *err) {
    size_t n = (size_t)e->n_traces, ranks = (size_t)e->ranks;
    OWNED_MEMORY int *codes = calloc(n * ranks + 1, sizeof *codes);
    OWNED_MEMORY struct err *whys = calloc(ranks, sizeof *whys);
    int rc;
    if (!codes || !whys)
        return err_set(err, ERR_EXHAUSTED, "out of memory for an evaluation");
    for (size_t i = 0; i < n; i++)
        codes[(size_t)e->rank * n + i] = e->traces[i].lost ? e->traces[i].lost->code : 0;
    if ((rc = world_gather(e->config.world, codes, n * sizeof *codes, e->config.limit_ms, err)))
        return rc;
    e->current = 0;
    for (size_t i = 0; i < n; i++) { /* dropping moves the later ones down */
        const struct trace *t = &e->traces[e->current];
        int owner = t->owner;
        if (!codes[(size_t)owner * n + i]) {
            e->current++;
            continue;
        }
        if (t->lost)
            whys[e->rank] = *t->lost;
        if ((rc = world_gather(e->config.world, whys, sizeof *whys, e->config.limit_ms, err)) ||
            (rc = evaluation_drop(e, &whys[owner], err)))
            return rc;
    }
    return 0;
}

static int give_trace(struct evaluation *e, int i, struct err *err) {
    const struct trace *t = &e->traces[i];
    const float *p = NULL, *alarm_p = NULL;
    int64_t n_alarms = t->n_alarms;
    int rc;
    if ((rc = evaluation_trace(e, i, &p, err)) || (e->config.alarm_hop && (rc = evaluation_alarm_trace(e, i, &alarm_p, err))))
        return rc;
    size_t bytes = (size_t)t->n * sizeof *p;
    const struct world_parts parts[] = {{.out = &n_alarms, .out_bytes = sizeof n_alarms},
                                        {.out = p, .out_bytes = bytes},
                                        {.out = alarm_p, .out_bytes = alarm_p ? bytes : 0},
                                        {.out = t->alarms_s, .out_bytes = (size_t)n_alarms * sizeof *t->alarms_s}};
    for (size_t k = 0; !rc && k < sizeof parts / sizeof *parts; k++)
        rc = world_exchange(e->config.world, 0, &parts[k], e->config.limit_ms, err);
    return rc;
}

static int take_part(struct evaluation *e, int owner, void *in, size_t bytes, struct err *err) {
    return world_exchange(e->config.world, owner, &(struct world_parts){.in = in, .in_bytes = bytes}, e->config.limit_ms, err);
}

static int take_trace(struct evaluation *e, int i, struct err *err) {
    struct trace *t = &e->traces[i];
    size_t bytes = (size_t)t->n * sizeof *t->p;
    int64_t n_alarms = 0;
    int rc = take_part(e, t->owner, &n_alarms, sizeof n_alarms, err);
    if (rc)
        return rc;
    t->p = evaluation_new_trace(t->n);
    t->alarm_p = e->config.alarm_hop ? evaluation_new_trace(t->n) : NULL;
    t->alarms_s = calloc((size_t)n_alarms + 1, sizeof *t->alarms_s);
    t->n_alarms = (int)n_alarms;
    if (!t->p || !t->alarms_s || (e->config.alarm_hop && !t->alarm_p))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the trace of %s", t->entry->relative_path);
    if ((rc = take_part(e, t->owner, t->p, bytes, err)) || (t->alarm_p && (rc = take_part(e, t->owner, t->alarm_p, bytes, err))) ||
        (rc = take_part(e, t->owner, t->alarms_s, (size_t)n_alarms * sizeof *t->alarms_s, err)))
        return rc;
    rc = evaluation_add_up(e, t, t->p, err);
    return rc ? rc : evaluation_store(e, t, err);
}

int evaluation_collect(struct evaluation *e, struct err *err) {
    const float *p = NULL;
    int rc = drop_lost(e, err);
    for (int i = 0; !rc && i < e->n_traces; i++) {
        struct trace *t = &e->traces[i];
        if (e->rank)
            rc = t->owner == e->rank ? give_trace(e, i, err) : 0;
        else if (t->owner)
            rc = take_trace(e, i, err);
        else if (!(rc = evaluation_trace(e, i, &p, err)))
            rc = evaluation_add_up(e, t, p, err);
    }
    e->collected = true;
    return rc;
}
