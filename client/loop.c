/* Many streams on one thread: the calls of all of them share one queue of events; an event, or a timer, lets its stream go on and
 * its handler hear what came. */

#include "client/stream.h"

enum { LOOKS_MS = 50 /* between looks at all streams */ };

struct brr_loop {
    struct conn_queue *queue;
    struct brr_stream *streams;
    int calls;       /* of handlers, in this run */
    int64_t due_ms;  /* when the first of them is due, or before; 0: now */
    int64_t look_ms; /* not sooner are all looked at, unless one is due now */
};

int brr_loop_new(brr_loop **ret, struct brr_error *err) {
    struct brr_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return conn_error(err, BRR_EXHAUSTED, "out of memory for a loop");
    int rc = conn_queue_new(&loop->queue, err);
    if (rc) {
        free(loop);
        return rc;
    }
    loop->due_ms = INT64_MAX;
    *ret = loop;
    return 0;
}

void brr_loop_free(brr_loop *loop) {
    if (!loop)
        return;
    while (loop->streams)
        brr_stream_close(loop->streams);
    conn_queue_free(loop->queue);
    free(loop);
}

int brr_loop_open(brr_loop *loop, brr_client *client, const struct brr_stream_config *config, const struct brr_handler *handler,
                  brr_stream **ret, struct brr_error *err) {
    struct brr_stream *s;
    Brr__V1__Open open;
    int rc = stream_new(client, config, &s, &open, err);
    if (rc)
        return rc;
    s->link.queue = loop->queue;
    s->link.owner = s;
    s->handler = *handler;
    s->open_deadline_ms = clock_ms() + stream_open_timeout_ms(config);
    if ((rc = link_start(&s->link, &open, err))) {
        stream_free(s);
        return rc;
    }
    s->list = &loop->streams;
    s->due_ms = &loop->due_ms;
    s->after = loop->streams;
    if (s->after)
        s->after->before = s;
    loop->streams = s;
    loop->due_ms = 0;
    link_advance(&s->link);
    *ret = s;
    return 0;
}

/* ---- what a handler hears ---- */

static void say_opened(struct brr_loop *loop, struct brr_stream *s) {
    if (!s->open_deadline_ms || !s->link.opened)
        return;
    s->open_deadline_ms = 0;
    stream_learn(s);
    loop->calls++;
    if (s->handler.opened)
        s->handler.opened(s->handler.ctx, s);
}

static void say_messages(struct brr_loop *loop, struct brr_stream *s) {
    struct brr_message m;
    struct brr_error err;
    while (!s->close_wanted && s->link.in.count) {
        int rc = inbox_take(&s->link.in, &m, &err);
        if (rc) {
            link_fail(&s->link, rc, err.message);
            return;
        }
        loop->calls++;
        if (s->handler.message)
            s->handler.message(s->handler.ctx, s, &m);
    }
}

static void say_progress(struct brr_loop *loop, struct brr_stream *s) {
    bool moved = s->link.received != s->received || s->link.durable != s->consumed;
    s->received = s->link.received;
    s->consumed = s->link.durable;
    if (moved && s->handler.acked && !s->close_wanted) {
        loop->calls++;
        s->handler.acked(s->handler.ctx, s);
    }
    if (s->room_wanted && s->link.state < LINK_ENDED && !s->open_deadline_ms && stream_has_room(s, s->room_wanted)) {
        s->room_wanted = 0;
        loop->calls++;
        if (s->handler.room && !s->close_wanted)
            s->handler.room(s->handler.ctx, s);
    }
}

static void say_end(struct brr_loop *loop, struct brr_stream *s) {
    if (s->over || s->link.state < LINK_ENDED || s->link.in.count || s->close_wanted)
        return;
    s->over = true;
    loop->calls++;
    if (s->handler.ended)
        s->handler.ended(s->handler.ctx, s, s->link.state == LINK_FAILED ? &s->link.error : NULL);
}

static int64_t due_of(const struct brr_stream *s, int64_t now) {
    int64_t due = link_due_ms(&s->link);
    int64_t open = s->open_deadline_ms && s->link.state < LINK_ENDED ? s->open_deadline_ms - now : -1;
    if (s->open_deadline_ms && open < 0 && s->link.state < LINK_ENDED)
        open = 0;
    if (s->link.state >= LINK_ENDED)
        return s->over ? -1 : 0;
    return due < 0 || (open >= 0 && open < due) ? open : due;
}

/* Whatever the stream can do now. It may be freed here. */
static void serve(struct brr_loop *loop, struct brr_stream *s) {
    bool more = true;
    s->busy = true;
    while (more && !s->close_wanted) {
        more = link_advance(&s->link);
        say_opened(loop, s);
        say_messages(loop, s);
        say_progress(loop, s);
    }
    say_end(loop, s);
    s->busy = false;
    if (s->close_wanted) {
        brr_stream_close(s);
        return;
    }
    const int64_t now = clock_ms(), due = due_of(s, now);
    if (due >= 0 && now + due < loop->due_ms)
        loop->due_ms = now + due;
}

/* ---- run ---- */

/* Serves the streams whose time has come; returns the milliseconds until the next one's, -1 = none. Looks at all streams only when
 * the first of them is due, and at most once in LOOKS_MS unless that is now. */
static int64_t serve_timers(struct brr_loop *loop) {
    int64_t now = clock_ms(), least = -1;
    const int64_t next = loop->due_ms && loop->due_ms < loop->look_ms ? loop->look_ms : loop->due_ms;
    if (now < next)
        return next == INT64_MAX ? -1 : next - now;
    loop->look_ms = now + LOOKS_MS;
    for (struct brr_stream *s = loop->streams, *after; s; s = after) {
        after = s->after;
        int64_t due = due_of(s, now);
        if (!due && s->open_deadline_ms && now >= s->open_deadline_ms)
            link_fail(&s->link, BRR_DEADLINE, "no answer to Open in time; the device is busy or the model slow to load");
        if (!due) {
            serve(loop, s);
            due = 1;
        }
        if (due >= 0 && (least < 0 || due < least))
            least = due;
    }
    loop->due_ms = least < 0 ? INT64_MAX : now + least;
    return least;
}

int brr_loop_run(brr_loop *loop, int64_t timeout_ms) {
    int64_t end = clock_ms() + timeout_ms;
    loop->calls = 0;
    do {
        int64_t wait_ms = serve_timers(loop), left = end - clock_ms();
        left = left < 0 ? 0 : left;
        if (wait_ms < 0 || (timeout_ms >= 0 && left < wait_ms))
            wait_ms = timeout_ms < 0 ? -1 : left;
        if (loop->calls)
            wait_ms = 0;
        if (!loop->streams)
            break;
        struct brr_stream *s = conn_queue_poll(loop->queue, wait_ms);
        for (int i = 0; s && i < BRR_LOOP_EVENTS; i++) {
            serve(loop, s);
            s = conn_queue_poll(loop->queue, 0);
        }
        if (s)
            serve(loop, s);
    } while (!loop->calls && (timeout_ms < 0 || clock_ms() < end));
    return loop->calls;
}
