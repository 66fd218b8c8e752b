/* convert: packs the protobuf messages of answers. Loop thread, but convert_pack, which any thread may call. */
#pragma once
#include <protobuf-c/protobuf-c.h>

#include "brr/v1/alarms.pb-c.h"
#include "brr/v1/jobs.pb-c.h"
#include "daemon/alarms/alarms.h"
#include "daemon/jobs/job.h"
#include "daemon/rpc/rpc.h"

/* A text of the daemon in a message, which only reads it. */
static inline char *convert_text(const char *text) { return (char *)(uintptr_t)text; }
/* The packed message, which the caller frees; NULL and an error without memory. */
uint8_t *convert_pack(const ProtobufCMessage *message, size_t *ret_len, struct err *err);
/* Packs the message and queues it; returns the result of rpc_send. */
bool convert_send(struct rpc_call *call, const ProtobufCMessage *message);
/* Queues the answer of a unary call and ends the call; returns 0. */
int convert_answer(struct rpc_call *call, const ProtobufCMessage *message);
/* A message of the alarm, which borrows from it. */
struct alarm_message {
    Brr__V1__BedAlarm alarm; /* its first member */
    Brr__V1__AlarmAuthor answered, silenced, noted;
    char again[ALARM_AGAIN];
};
void convert_alarm(const struct alarm *a, const struct alarms_now *now, struct alarm_message *ret);
/* Its number in the protocol. */
Brr__V1__JobState convert_job_state(enum job_state state);
/* Builds a job's message in the call's arena (strings point into the job: pack it before the job changes). NULL if the arena is
 * full. */
Brr__V1__Job *convert_job(struct arena *arena, const struct job *job, int queue_position);
