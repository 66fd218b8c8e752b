#include "nn/replay.h"

static bool same(const struct replay_key *a, const struct replay_key *b) {
    return a->in == b->in && a->out == b->out && a->rows == b->rows && a->part == b->part;
}

/* The entry of the key, else the one that is free or has waited longest, emptied. */
static struct replay_entry *entry_for(struct replay *r, const struct replay_key *key) {
    struct replay_entry *oldest = &r->entries[0];
    for (int i = 0; i < REPLAY_MAX; i++) {
        struct replay_entry *e = &r->entries[i];
        if (e->used && same(&e->key, key))
            return e;
        if (!e->used ? oldest->used : oldest->used && e->turn < oldest->turn)
            oldest = e;
    }
    graph_free(oldest->graph);
    *oldest = (struct replay_entry){.key = *key};
    return oldest;
}

static int record(struct replay_entry *e, struct stream *s, const struct replay_body *body, struct err *err) {
    int rc = stream_record(s, err);
    if (rc)
        return rc;
    rc = body->run(body->ctx, err);
    int ended = stream_record_end(s, !rc, &e->graph, rc ? NULL : err);
    return rc ? rc : ended;
}

/* Records the work if that is possible; else it runs op by op now, and always. A lost device is an error. */
static int record_or_run(struct replay *r, struct replay_entry *e, struct stream *s, const struct replay_body *body,
                         struct err *err) {
    struct err why = {0};
    int rc = record(e, s, body, &why);
    if (!rc)
        return 0;
    if (device_lost(stream_device(s))) {
        if (err)
            *err = why;
        return rc;
    }
    e->never = true;
    if (!r->refusal.code)
        r->refusal = why;
    return body->run(body->ctx, err);
}

int replay_run(struct replay *r, struct stream *s, const struct replay_key *key, const struct replay_body *body, struct err *err) {
    if (!stream_records(s))
        return body->run(body->ctx, err);
    struct replay_entry *e = entry_for(r, key);
    e->turn = ++r->turns;
    if (e->used && e->epoch != stream_epoch(s)) { /* another stream, or its memory has moved */
        graph_free(e->graph);
        *e = (struct replay_entry){.key = *key, .turn = r->turns, .never = e->never};
    }
    int rc = 0;
    if (!e->graph)
        rc = e->used && !e->never ? record_or_run(r, e, s, body, err) : body->run(body->ctx, err);
    if (!rc && e->graph)
        rc = graph_run(e->graph, s, err);
    e->used = !rc;
    e->epoch = stream_epoch(s);
    return rc;
}

bool replay_warning(struct replay *r, struct err *ret) {
    if (!r->refusal.code || r->warned)
        return false;
    r->warned = true;
    *ret = r->refusal;
    return true;
}

void replay_done(struct replay *r) {
    for (int i = 0; i < REPLAY_MAX; i++)
        graph_free(r->entries[i].graph);
    *r = (struct replay){0};
}
