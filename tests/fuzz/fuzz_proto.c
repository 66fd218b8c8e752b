/* Any bytes as a request: the first byte picks the message, the rest is unpacked as the daemon does it. Refused with INVALID, or a
 * message within its arena that, unless it has unknown fields, packs and unpacks to the same bytes. (protobuf-c takes an unknown
 * field of number 0 when its tag is longer than needed, and writes it in a form that it refuses.) */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "brr/v1/admin.pb-c.h"
#include "brr/v1/burst.pb-c.h"
#include "brr/v1/checkpoints.pb-c.h"
#include "brr/v1/jobs.pb-c.h"
#include "brr/v1/stream.pb-c.h"
#include "daemon/rpc/rpc.h"
#include "daemon/rpc/texts.h"
#include "grpc/health/v1/health.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The corpus counts on this order: new ones go to the end. */
static const ProtobufCMessageDescriptor *const requests[] = {
    &brr__v1__submit_request__descriptor,
    &brr__v1__client_message__descriptor,
    &brr__v1__get_job_request__descriptor,
    &brr__v1__list_jobs_request__descriptor,
    &brr__v1__watch_job_request__descriptor,
    &brr__v1__job_logs_request__descriptor,
    &brr__v1__cancel_job_request__descriptor,
    &brr__v1__resume_job_request__descriptor,
    &brr__v1__version_request__descriptor,
    &brr__v1__devices_request__descriptor,
    &brr__v1__metrics_request__descriptor,
    &brr__v1__watch_metrics_request__descriptor,
    &brr__v1__put_checkpoint_part__descriptor,
    &brr__v1__checkpoint_ref__descriptor,
    &brr__v1__list_checkpoints_request__descriptor,
    &grpc__health__v1__health_check_request__descriptor,
    &brr__v1__create_network_request__descriptor,
    &brr__v1__inject_request__descriptor,
    &brr__v1__patch_request__descriptor,
    &brr__v1__step_request__descriptor,
    &brr__v1__observe_network_request__descriptor,
    &brr__v1__restore_network_request__descriptor,
};

static uint8_t *packed(const ProtobufCMessage *m, size_t *ret_len) {
    *ret_len = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(*ret_len + 1);
    if (!bytes || protobuf_c_message_pack(m, bytes) != *ret_len)
        abort();
    return bytes;
}

static bool has_unknown_field(const ProtobufCMessage *m);

/* In one of the messages of a repeated field. */
static bool any_has_unknown_field(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f) {
    size_t n;
    bool found = false;
    memcpy(&n, (const char *)m + f->quantifier_offset, sizeof n);
    const ProtobufCMessage *const *items = *(const ProtobufCMessage *const *const *)(const void *)((const char *)m + f->offset);
    for (size_t i = 0; !found && i < n; i++)
        found = has_unknown_field(items[i]);
    return found;
}

/* In the message or one within it. */
static bool has_unknown_field(const ProtobufCMessage *m) {
    bool found = m->n_unknown_fields > 0;
    for (unsigned i = 0; !found && i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        if (f->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            found = any_has_unknown_field(m, f);
            continue;
        }
        bool oneof = f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
        if (oneof && *(const uint32_t *)(const void *)((const char *)m + f->quantifier_offset) != f->id)
            continue;
        const ProtobufCMessage *inner = *(const ProtobufCMessage *const *)(const void *)((const char *)m + f->offset);
        found = inner && has_unknown_field(inner);
    }
    return found;
}

static void check_round_trip(const ProtobufCMessage *m) {
    OWNED(arena_done) struct arena arena;
    struct err err;
    size_t len, len_again;
    uint8_t *bytes = packed(m, &len);
    arena_init(&arena, 2 * RPC_DATA_BYTES);
    const ProtobufCMessage *copy = texts_unpack(&arena, m->descriptor, bytes, len, &err);
    if (!copy)
        abort();
    uint8_t *bytes_again = packed(copy, &len_again);
    if (len != len_again || memcmp(bytes, bytes_again, len))
        abort();
    free(bytes);
    free(bytes_again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    const ProtobufCMessageDescriptor *descriptor = requests[data[0] % (sizeof requests / sizeof *requests)];
    OWNED(arena_done) struct arena arena;
    struct err err = {0};
    arena_init(&arena, size % 8 ? RPC_DATA_BYTES : 256 + size);
    const ProtobufCMessage *m = texts_unpack(&arena, descriptor, data + 1, size - 1, &err);
    if (m ? err.code : err.code != ERR_INVALID || !err.message[0])
        abort();
    if (m && (m->descriptor != descriptor || !protobuf_c_message_check(m)))
        abort();
    if (m && !has_unknown_field(m))
        check_round_trip(m);
    return 0;
}
