#include "daemon/live/live_loads.h"

#include "base/queue.h"
#include "daemon/live/live_stream.h"

const char *live_load_path(const struct live_order *o) {
    return o->message.kind == LIVE_OPEN ? live_stream_open(o->stream)->checkpoint : o->checkpoint;
}

static struct live_load *find(const struct live_loads *w, const char *path) {
    struct live_load *load = w->first;
    while (load && strcmp(load->path, path) != 0)
        load = load->next;
    return load;
}

static int count(const struct live_loads *w) {
    int n = 0;
    for (const struct live_load *load = w->first; load; load = load->next)
        n++;
    return n;
}

int live_loads_add(struct live_loads *w, struct live_order *o, struct live_load **ret_ask, struct err *err) {
    const char *path = live_load_path(o);
    struct live_load *load = find(w, path);
    *ret_ask = NULL;
    if (load) {
        LIST_ADD_LAST(load->later, &o->message, next);
        return 0;
    }
    if (o->message.kind == LIVE_OPEN && count(w) >= LIVE_MAX_LOADS)
        return err_set(err, ERR_EXHAUSTED, "%d model files are being read already; try again later", LIVE_MAX_LOADS);
    if (!(load = calloc(1, sizeof *load)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a model");
    str_copy(load->path, sizeof load->path, path);
    LIST_ADD_LAST(load->asked, &o->message, next);
    load->next = w->first;
    w->first = load;
    *ret_ask = load;
    return 0;
}

int live_loads_ask(struct live_loads *w, const struct live_load *load, int64_t known_bytes, int64_t known_mtime_ns,
                   struct err *err) {
    struct live_order *o = live_order_new(LIVE_PREPARED, NULL);
    struct live_prepared *p = o ? calloc(1, sizeof *p) : NULL;
    if (!p) {
        live_order_free(o);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a model");
    }
    *p = (struct live_prepared){.known_bytes = known_bytes, .known_mtime_ns = known_mtime_ns, .asked_s = clock_s()};
    str_copy(p->path, sizeof p->path, load->path);
    o->prepared = p;
    int rc = model_loader_read(w->loader, o, w->post, w->ctx, err);
    if (rc)
        live_order_free(o);
    return rc;
}

struct live_load *live_loads_take(struct live_loads *w, const char *path, struct message **ret_due) {
    struct live_load *load = find(w, path);
    if (!load)
        return NULL;
    *ret_due = load->asked;
    load->asked = load->later;
    load->later = NULL;
    return load;
}

struct message *live_loads_remove(struct live_loads *w, struct live_load *load) {
    struct message *orders = load->asked;
    LIST_REMOVE(w->first, load, next);
    free(load);
    return orders;
}

static void drop_from(struct message **list, const struct live_stream *stream) {
    while (*list) {
        struct live_order *o = (struct live_order *)*list;
        if (stream && o->stream != stream) {
            list = &o->message.next;
            continue;
        }
        *list = o->message.next;
        live_order_free(o);
    }
}

void live_loads_drop(struct live_loads *w, const struct live_stream *stream) {
    for (struct live_load *load = w->first; load; load = load->next) {
        drop_from(&load->asked, stream);
        drop_from(&load->later, stream);
    }
}

void live_loads_done(struct live_loads *w) {
    live_loads_drop(w, NULL);
    while (w->first)
        live_loads_remove(w, w->first);
}
