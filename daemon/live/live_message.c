#include "daemon/live/live_message.h"

enum { NO_ANSWER = -1 };
static const int answers[] = {
    [LIVE_OPEN] = LIVE_OPENED, [LIVE_CHUNK] = LIVE_CONSUMED, [LIVE_GAP] = LIVE_CONSUMED, [LIVE_FINISH] = LIVE_SUMMARY,
    [LIVE_SAVE] = LIVE_SAVED,  [LIVE_CLOSE] = LIVE_CLOSED,   [LIVE_LOAD] = LIVE_LOADED,  [LIVE_UNLOAD] = LIVE_UNLOADED,
    [LIVE_WAKE] = NO_ANSWER,   [LIVE_PREPARED] = NO_ANSWER,  [LIVE_SERVED] = NO_ANSWER,  [LIVE_UNSERVED] = NO_ANSWER};

struct live_order *live_order_new(enum live_order_kind kind, struct live_stream *stream) {
    struct live_order *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->message.kind = (int)kind;
    o->stream = stream;
    o->max_delay_ms = -1;
    if (answers[kind] == NO_ANSWER || (o->answer = live_report_new((enum live_report_kind)answers[kind], stream)))
        return o;
    free(o);
    return NULL;
}

void live_order_free(struct live_order *o) {
    if (!o)
        return;
    free(o->data);
    if (o->prepared)
        model_image_close(o->prepared->image);
    free(o->prepared);
    live_report_free(o->answer);
    free(o);
}

struct live_report *live_order_answer(struct live_order *o) {
    struct live_report *r = o->answer;
    o->answer = NULL;
    return r;
}

void live_report_post(struct live_report *r, struct mailbox *to) {
    if (!mailbox_post_wait(to, &r->message, -1))
        live_report_free(r);
}

void live_report_free(struct live_report *r) {
    if (!r)
        return;
    FREE_MEMBERS(*r, p, events);
    free(r->quality.channels);
    FREE_MEMBERS(*r, suppression, channel_suppression, opened);
    eegring_drop(r->eeg);
    free(r->state);
    free(r);
}

static size_t channel_bytes(const struct live_report *r) {
    return (size_t)r->n_suppression * 2 * (size_t)r->channels * sizeof *r->channel_suppression;
}

static void *copy_of(const void *data, size_t len) {
    void *copy = data && len ? malloc(len) : NULL;
    return copy ? memcpy(copy, data, len) : NULL;
}

struct live_report *live_report_copy(const struct live_report *r) {
    struct live_report *copy = copy_of(r, sizeof *r);
    if (!copy)
        return NULL;
    copy->message.next = NULL;
    copy->opened = NULL;
    copy->eeg = NULL;
    copy->state = NULL;
    copy->p = copy_of(r->p, (size_t)r->samples * sizeof *r->p);
    copy->events = copy_of(r->events, (size_t)r->n_events * sizeof *r->events);
    copy->quality.channels = copy_of(r->quality.channels, (size_t)r->quality.n * sizeof *r->quality.channels);
    copy->suppression = copy_of(r->suppression, (size_t)r->n_suppression * sizeof *r->suppression);
    copy->channel_suppression = copy_of(r->channel_suppression, channel_bytes(r));
    if ((!r->p || copy->p) && (!r->n_events || copy->events) && (!r->quality.n || copy->quality.channels) &&
        (!r->n_suppression || (copy->suppression && copy->channel_suppression)))
        return copy;
    live_report_free(copy);
    return NULL;
}

struct live_report *live_report_new(enum live_report_kind kind, struct live_stream *s) {
    struct live_report *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->message.kind = (int)kind;
    r->stream = s;
    r->running = -1;
    return r;
}

int64_t live_report_bytes(const struct live_report *r) {
    return (int64_t)sizeof *r + (r->p ? r->samples * (int64_t)sizeof *r->p : 0) + r->n_events * (int64_t)sizeof *r->events +
           r->quality.n * (int64_t)sizeof *r->quality.channels + r->n_suppression * (int64_t)sizeof *r->suppression +
           (int64_t)channel_bytes(r);
}
