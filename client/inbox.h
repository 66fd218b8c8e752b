/* inbox: the daemon's messages that wait to be taken, at most BRR_STREAM_IN_MESSAGES, and the numbers of the newest results and
 * alarms: what a resumed session sends again is dropped here. One thread at a time. */
#pragma once

#include "base/base.h"
#include "brr/v1/stream.pb-c.h"
#include "client/brr.h"

struct inbox {
    struct inbox_entry {
        Brr__V1__ServerMessage *message;
        int64_t away_ms; /* OPENED after a cut: how long the daemon was away */
    } entries[BRR_STREAM_IN_MESSAGES];
    int first, count;
    Brr__V1__ServerMessage *taken; /* given out last */
    struct brr_event *events;      /* of `taken` */
    struct brr_suppression *suppression;
    bool numbered; /* a session that can be resumed: results and alarms come once */
    bool summed;   /* the Summary has come */
    int64_t next_result_seq, next_alarm_seq, provisional_through;
    int64_t unseen_bytes; /* of results since the owner last set it to 0 */
};

/* Unpacks bytes of the daemon; NULL when they are no message that can be relied on. */
Brr__V1__ServerMessage *inbox_unpack(const uint8_t *data, size_t len);
void inbox_free_message(Brr__V1__ServerMessage *m);
bool inbox_full(const struct inbox *b);
/* Owns the message from now on. DATA_LOSS: the results between the newest and this one never came. */
int inbox_add(struct inbox *b, Brr__V1__ServerMessage *m, int64_t away_ms, struct brr_error *err);
/* The next message; pointers are valid until the next call. AGAIN: none waits. */
int inbox_take(struct inbox *b, struct brr_message *ret, struct brr_error *err);
void inbox_done(struct inbox *b);
