#include "client/outbox.h"

#include "base/queue.h"

bool outbox_add(struct outbox *o, const ProtobufCMessage *message, int64_t end) {
    size_t len = protobuf_c_message_get_packed_size(message);
    struct packet *p = malloc(sizeof *p + len);
    if (!p)
        return false;
    p->end = end;
    p->len = len;
    protobuf_c_message_pack(message, p->data);
    QUEUE_ADD(o, p, next);
    if (!o->unsent)
        o->unsent = p;
    o->bytes += len;
    return true;
}

static void drop_first(struct outbox *o) {
    struct packet *p = o->first;
    QUEUE_DROP(o, next);
    if (p->end > o->dropped_through)
        o->dropped_through = p->end;
    o->bytes -= p->len;
    free(p);
}

void outbox_sent(struct outbox *o) {
    o->unsent = o->unsent->next;
    while (!o->keep && o->first != o->unsent)
        drop_first(o);
}

void outbox_durable(struct outbox *o, int64_t through) {
    while (o->first != o->unsent && o->first->end <= through)
        drop_first(o);
}

bool outbox_rewind(struct outbox *o, int64_t from) {
    if (from < o->dropped_through)
        return false;
    o->unsent = o->first;
    while (o->unsent && o->unsent->end <= from)
        o->unsent = o->unsent->next;
    return true;
}

void outbox_done(struct outbox *o) {
    while (o->first)
        drop_first(o);
    *o = (struct outbox){0};
}
