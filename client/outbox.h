/* outbox: the samples of a stream on their way to the daemon, as packed messages in order. Each is kept until it was sent or, where
 * the session can be resumed, until the daemon has it durably: after a cut outbox_rewind sends again from where the daemon asks.
 * One thread at a time. */
#pragma once
#include "base/base.h"
#include <protobuf-c/protobuf-c.h>

struct packet {
    struct packet *next;
    int64_t end; /* the source sample behind its last one */
    size_t len;
    uint8_t data[];
};

struct outbox {
    struct packet *first, *last; /* all that are kept */
    struct packet *unsent;       /* the next to be sent, NULL = none */
    size_t bytes;                /* of all that are kept */
    int64_t dropped_through;     /* samples before it are no longer here */
    bool keep;                   /* until they are durable; false: until they were sent */
};

/* Packs and appends a message. False when out of memory. */
bool outbox_add(struct outbox *o, const ProtobufCMessage *message, int64_t end);
/* The message `unsent` has been sent. */
void outbox_sent(struct outbox *o);
/* Drops sent samples before `through`. */
void outbox_durable(struct outbox *o, int64_t through);
/* Continues with the first message that holds samples from `from` on. False: some of them are no longer here. */
bool outbox_rewind(struct outbox *o, int64_t from);
void outbox_done(struct outbox *o);
