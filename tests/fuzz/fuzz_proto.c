/* Any bytes as a request: the first byte picks the message, the rest is unpacked as the daemon does it. Refused with INVALID, or a
 * message within its arena that packs and unpacks to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "brr/v1/admin.pb-c.h"
#include "brr/v1/checkpoints.pb-c.h"
#include "brr/v1/stream.pb-c.h"
#include "daemon/rpc/convert.h"
#include "grpc/health/v1/health.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A call without a server: what convert.c asks of rpc.c. */
struct rpc_call {
    struct arena arena;
    int code;
    bool finished;
};

struct arena *rpc_arena(struct rpc_call *call) {
    return &call->arena;
}

void rpc_finish(struct rpc_call *call, int code, const struct err *err) {
    if (call->finished || code != ERR_INVALID || !err || err->code != code || !err->message[0])
        abort();
    call->finished = true;
    call->code = code;
}

bool rpc_send(struct rpc_call *call, const uint8_t *data, size_t len) {
    (void)call, (void)data, (void)len;
    abort(); /* nothing is answered here */
}

static const ProtobufCMessageDescriptor *const requests[] = {
    &brr__v1__submit_request__descriptor,           &brr__v1__client_message__descriptor,
    &brr__v1__get_job_request__descriptor,          &brr__v1__list_jobs_request__descriptor,
    &brr__v1__watch_job_request__descriptor,        &brr__v1__job_logs_request__descriptor,
    &brr__v1__cancel_job_request__descriptor,       &brr__v1__resume_job_request__descriptor,
    &brr__v1__version_request__descriptor,          &brr__v1__devices_request__descriptor,
    &brr__v1__metrics_request__descriptor,          &brr__v1__watch_metrics_request__descriptor,
    &brr__v1__put_checkpoint_part__descriptor,      &brr__v1__checkpoint_ref__descriptor,
    &brr__v1__list_checkpoints_request__descriptor, &grpc__health__v1__health_check_request__descriptor,
};

static uint8_t *packed(const ProtobufCMessage *m, size_t *ret_len) {
    *ret_len = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(*ret_len + 1);
    if (!bytes || protobuf_c_message_pack(m, bytes) != *ret_len)
        abort();
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    const ProtobufCMessageDescriptor *descriptor = requests[data[0] % (sizeof requests / sizeof *requests)];
    struct rpc_call call = {0}, again = {0};
    size_t len, len_again;
    arena_init(&call.arena, size % 8 ? RPC_DATA_BYTES : 256 + size);
    arena_init(&again.arena, 2 * RPC_DATA_BYTES);
    ProtobufCMessage *m = convert_unpack(&call, descriptor, data + 1, size - 1);
    if (call.finished != !m)
        abort();
    if (m) {
        if (m->descriptor != descriptor || !protobuf_c_message_check(m))
            abort();
        uint8_t *bytes = packed(m, &len);
        ProtobufCMessage *copy = convert_unpack(&again, descriptor, bytes, len);
        if (!copy)
            abort();
        uint8_t *bytes_again = packed(copy, &len_again);
        if (len != len_again || memcmp(bytes, bytes_again, len))
            abort();
        free(bytes);
        free(bytes_again);
    }
    arena_done(&call.arena);
    arena_done(&again.arena);
    return 0;
}
