#include "daemon/live/stream_places.h"

#include "daemon/live/live_stream.h"

int stream_places_choose(const struct stream_places *p, const char *wanted, uint32_t allowed, int *ret, struct err *err) {
    int only, best = DEVICE_ANY, rc = device_set_find(p->set, wanted, &only, err);
    if (rc)
        return rc;
    if (allowed && only != DEVICE_ANY && !(allowed >> only & 1))
        return err_set(err, ERR_INVALID, "device %s is none of the model's", wanted);
    for (int i = 0; i < device_set_count(p->set); i++)
        if (!device_set_is_held(p->set, i) && (only == DEVICE_ANY || only == i) && (!allowed || allowed >> i & 1) &&
            (best == DEVICE_ANY || p->streams[i] < p->streams[best]))
            best = i;
    if (best == DEVICE_ANY)
        return err_set(err, ERR_UNAVAILABLE, "%s takes no new streams: it has gone bad (`brrctl devices`)",
                       only == DEVICE_ANY ? "the device" : device_set_name(p->set, only));
    *ret = best;
    return 0;
}

bool stream_places_post(struct stream_places *p, struct live_order *o) {
    const enum live_order_kind kind = (enum live_order_kind)o->message.kind;
    const struct live_open *open = o->stream ? live_stream_open(o->stream) : NULL;
    const int device = open ? open->device : o->device;
    if (!device_set_post(p->set, device, open && !open->realtime ? HOST_REPLAYS : HOST_LIVE, &o->message))
        return false;
    p->streams[device] += kind == LIVE_OPEN ? 1 : kind == LIVE_CLOSE ? -1 : 0;
    return true;
}

struct live_report *stream_places_take(struct stream_places *p) {
    int device;
    struct message *m = device_set_take(p->set, HOST_LIVE, &device);
    if (!m)
        m = device_set_take(p->set, HOST_REPLAYS, &device);
    struct live_report *r = (struct live_report *)m; /* message is the first member */
    if (r)
        r->device = device;
    return r;
}
