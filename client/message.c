#include "client/message.h"

char *message_text(const char *text) { return (char *)(uintptr_t)(text ? text : ""); }

int message_garbled(const char *method, struct brr_error *err) {
    return conn_error(err, BRR_INTERNAL, "the answer of %s cannot be decoded; do client and daemon have different versions?",
                      method);
}

static uint8_t *pack(const ProtobufCMessage *m, size_t *ret_len, struct brr_error *err) {
    *ret_len = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = malloc(*ret_len + 1);
    if (bytes)
        protobuf_c_message_pack(m, bytes);
    else
        conn_error(err, BRR_EXHAUSTED, "out of memory for a request of %zu bytes", *ret_len);
    return bytes;
}

int message_ask(brr_client *client, const struct message_call *call, const ProtobufCMessage *in, ProtobufCMessage **ret,
                struct brr_error *err) {
    size_t len, answer_len;
    void *answer = NULL;
    uint8_t *request = pack(in, &len, err);
    if (!request)
        return BRR_EXHAUSTED;
    int rc =
        brr_call(client, &(struct brr_request){.method = call->method, .data = request, .len = len, .timeout_ms = call->timeout_ms},
                 &answer, &answer_len, err);
    free(request);
    if (rc)
        return rc;
    *ret = protobuf_c_message_unpack(call->answer, NULL, answer_len, answer);
    free(answer);
    return *ret ? 0 : message_garbled(call->method, err);
}

int message_send(brr_rpc *rpc, const ProtobufCMessage *in, struct brr_error *err) {
    size_t len;
    uint8_t *request = pack(in, &len, err);
    if (!request)
        return BRR_EXHAUSTED;
    int rc = brr_rpc_send(rpc, request, len, -1, err);
    free(request);
    return rc;
}

int message_follow(brr_client *client, const char *method, const ProtobufCMessage *in, brr_rpc **ret, struct brr_error *err) {
    OWNED_POINTER(brr_rpc_close) brr_rpc *rpc = NULL;
    int rc;
    if ((rc = brr_rpc_open(client, method, 0, &rpc, err)) || (rc = message_send(rpc, in, err)) ||
        (rc = brr_rpc_half_close(rpc, err)))
        return rc;
    *ret = rpc;
    rpc = NULL;
    return 0;
}
