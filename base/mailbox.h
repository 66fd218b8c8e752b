/* mailbox: a bounded multi-producer, single-consumer queue of intrusive messages with a wake callback.
 * It connects a thread with the owner of some state (device worker → loop, loop → worker).
 * Any thread may post; only the owning thread may take. The poster owns a message until post succeeds;
 * from then on the taker owns it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct message {
    struct message *next; /* owned by the mailbox while queued */
    int kind;             /* defined by the two modules that exchange the messages */
};

struct mailbox;
typedef void mailbox_wake_fn(void *ctx);

/* wake (may be NULL) is called on the posting thread, with no lock held, after each post to an empty mailbox. */
struct mailbox *mailbox_new(size_t max_messages, mailbox_wake_fn *wake, void *ctx);
/* The owner must have taken every message first. Takes NULL. */
void mailbox_free(struct mailbox *box);
/* Returns false when the mailbox is full or closed; the caller then still owns the message. Never blocks. */
bool mailbox_post(struct mailbox *box, struct message *msg);
/* Like post, but waits up to timeout_ms (-1 = no limit) for room. Returns false on timeout or when closed. */
bool mailbox_post_wait(struct mailbox *box, struct message *msg, int64_t timeout_ms);
/* Until mailbox_uncork, posts do not call wake unless the mailbox is full; then wake is called once for the messages
 * that wait. For the only poster of a mailbox, on its thread. */
void mailbox_cork(struct mailbox *box);
void mailbox_uncork(struct mailbox *box);
void mailbox_flush(struct mailbox *box); /* calls wake now for what waits, and stays corked */
/* Returns the next message, or NULL when there is none. Never blocks. */
struct message *mailbox_take(struct mailbox *box);
/* Returns the next message, waiting up to timeout_ms (-1 = no limit). NULL on timeout, or when closed and empty. */
struct message *mailbox_wait(struct mailbox *box, int64_t timeout_ms);
/* After close, posts fail; takers receive the queued messages and then NULL. */
void mailbox_close(struct mailbox *box);
size_t mailbox_count(const struct mailbox *box);
