/* message: protobuf messages over the calls of brr.h, for the functions of libbrr that take plain values. Thread rules as in brr.h.
 */
#pragma once
#include <protobuf-c/protobuf-c.h>

#include "client/conn.h"

OWNABLE(brr_rpc, brr_rpc_close)

/* Text fields of requests; NULL becomes "". */
char *message_text(const char *text);
/* An answer that cannot be decoded; returns the code. */
int message_garbled(const char *method, struct brr_error *err);

/* One request, one answer, which the caller frees (protobuf_c_message_free_unpacked). */
struct message_call {
    const char *method;
    const ProtobufCMessageDescriptor *answer;
    int64_t timeout_ms; /* 0 = 30 s */
};
int message_ask(brr_client *client, const struct message_call *call, const ProtobufCMessage *in, ProtobufCMessage **ret,
                struct brr_error *err);
/* Sends one message of an open call; waits for room as long as the call's deadline allows. */
int message_send(brr_rpc *rpc, const ProtobufCMessage *in, struct brr_error *err);
/* A call with one request and many answers, without a deadline. */
int message_follow(brr_client *client, const char *method, const ProtobufCMessage *in, brr_rpc **ret, struct brr_error *err);
