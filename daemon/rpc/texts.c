#include "daemon/rpc/texts.h"

static bool valid_utf8(const char *text) {
    int step;
    while ((step = str_utf8_step(text)) > 0)
        text += step;
    return !*text;
}

/* The values of a field that is set, of which there are *ret_n; NULL without any. */
static const void *values_of(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, size_t *ret_n) {
    const char *at = (const char *)m + f->offset, *quantifier = (const char *)m + f->quantifier_offset;
    *ret_n = 1;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        memcpy(ret_n, quantifier, sizeof *ret_n);
        return *ret_n ? *(const void *const *)(const void *)at : NULL;
    }
    return f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF && *(const uint32_t *)(const void *)quantifier != f->id ? NULL : at;
}

const char *texts_bad_field(const ProtobufCMessage *m) {
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        size_t n;
        const void *const *items = values_of(m, f, &n);
        const char *bad = NULL;
        if (!items || (f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE))
            continue;
        for (size_t k = 0; k < n && !bad; k++) {
            if (!items[k])
                continue;
            if (f->type == PROTOBUF_C_TYPE_MESSAGE)
                bad = texts_bad_field(items[k]);
            else if (!valid_utf8(items[k]))
                bad = f->name;
        }
        if (bad)
            return bad;
    }
    return NULL;
}

/* ---- how many ---- */

/* Repeated fields whose bound is that of the whole message (burst.proto): they are read once, a few nanoseconds each. */
static const struct {
    const char *type, *field;
} numbers[] = {{"brr.v1.InjectRequest", "tick"},
               {"brr.v1.InjectRequest", "id"},
               {"brr.v1.InjectRequest", "potential"},
               {"brr.v1.PatchRequest", "neurons"},
               {"brr.v1.PatchRequest", "synapses"}};

static size_t most_of(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *field) {
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(numbers[i].type, type->name) && !strcmp(numbers[i].field, field->name))
            return SIZE_MAX;
    return TEXTS_MAX_REPEATED;
}

/* The name of a repeated field with more elements than it may have, in the message or those within it, and the limit; NULL = none.
 */
static const char *texts_long_field(const ProtobufCMessage *m, size_t *ret_most) {
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        size_t n;
        const void *const *items = values_of(m, f, &n);
        const char *found = NULL;
        if (!items)
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED && n > (*ret_most = most_of(m->descriptor, f)))
            return f->name;
        if (f->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        for (size_t k = 0; k < n && !found; k++)
            found = items[k] ? texts_long_field(items[k], ret_most) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

/* ---- repair ---- */

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct cursor {
    uint8_t *at, *end;
};

static bool take_varint(struct cursor *c, uint64_t *ret) {
    *ret = 0;
    for (unsigned shift = 0; c->at < c->end && shift < 64; shift += 7) {
        const uint8_t byte = *c->at++;
        *ret |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool skip(struct cursor *c, uint64_t n) {
    if (n > (uint64_t)(c->end - c->at))
        return false;
    c->at += n;
    return true;
}

static void repair_text(uint8_t *text, size_t len) {
    for (size_t i = 0, step; i < len; i += step) {
        char next[5] = "";
        memcpy(next, text + i, len - i < 4 ? len - i : 4);
        step = (size_t)str_utf8_step(next);
        if (!step) {
            text[i] = '?';
            step = 1;
        }
    }
}

void texts_repair(const ProtobufCMessageDescriptor *type, uint8_t *packed, size_t len) {
    struct cursor c = {packed, packed + len};
    for (uint64_t key, n; take_varint(&c, &key);) {
        const unsigned wire = key & 7;
        if (wire == WIRE_VARINT ? !take_varint(&c, &n) : wire == WIRE_64 ? !skip(&c, 8) : wire == WIRE_32 && !skip(&c, 4))
            return;
        if (wire != WIRE_BYTES)
            continue;
        uint8_t *from = take_varint(&c, &n) ? c.at : NULL;
        if (!from || !skip(&c, n))
            return;
        const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(type, (unsigned)(key >> 3));
        if (f && f->type == PROTOBUF_C_TYPE_STRING)
            repair_text(from, n);
        else if (f && f->type == PROTOBUF_C_TYPE_MESSAGE)
            texts_repair(f->descriptor, from, n);
    }
}

static void *arena_take(void *ctx, size_t size) { return arena_alloc(ctx, size); }

static void arena_keep(void *ctx, void *data) {
    (void)ctx;
    (void)data; /* freed with the arena */
}

void *texts_unpack(struct arena *arena, const ProtobufCMessageDescriptor *descriptor, const uint8_t *data, size_t len,
                   struct err *err) {
    ProtobufCAllocator allocator = {arena_take, arena_keep, arena};
    void *message = protobuf_c_message_unpack(descriptor, &allocator, len, data);
    size_t most = 0;
    const char *many = message ? texts_long_field(message, &most) : NULL, *bad = message && !many ? texts_bad_field(message) : NULL;
    if (message && !bad && !many)
        return message;
    if (many)
        err_set(err, ERR_INVALID, "%s: %s has more than %zu elements", descriptor->name, many, most);
    else if (bad)
        err_set(err, ERR_INVALID, "%s: the text of %s is not UTF-8", descriptor->name, bad);
    else
        err_set(err, ERR_INVALID, "the request is not a valid %s, or is too large", descriptor->name);
    return NULL;
}
