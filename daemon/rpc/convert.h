/* convert: protobuf messages in and out of calls. Unpacking runs in the call's arena (a hostile message cannot take more than its
 * budget), text fields are checked for UTF-8 without NUL; packing goes straight into a queued answer. Loop thread. */
#ifndef BRR_DAEMON_RPC_CONVERT_H
#define BRR_DAEMON_RPC_CONVERT_H
#include <protobuf-c/protobuf-c.h>

#include "brr/v1/jobs.pb-c.h"
#include "daemon/jobs/job.h"
#include "daemon/rpc/rpc.h"

/* NULL after the call was finished with INVALID. Lives as long as the call. */
void *convert_unpack(struct rpc_call *call, const ProtobufCMessageDescriptor *descriptor, const uint8_t *data, size_t len);
/* The same into an arena of the caller, for calls of many messages. */
void *convert_unpack_into(struct arena *arena, struct rpc_call *call, const ProtobufCMessageDescriptor *descriptor,
                          const uint8_t *data, size_t len);
/* Pack and queue; what rpc_send says. */
bool convert_send(struct rpc_call *call, const ProtobufCMessage *message);
/* Queue the answer of a unary call and end it. */
void convert_answer(struct rpc_call *call, const ProtobufCMessage *message);
/* A job as a message in the call's arena (strings point into the job: pack before it changes). NULL when the arena is full. */
Brr__V1__Job *convert_job(struct arena *arena, const struct job *job, int queue_position);

#endif
