/* mailbox: a bounded multi-producer, single-consumer queue of intrusive messages with a wake callback.
 * The channel between a thread and the owner of some state (device worker → loop, loop → worker).
 * Post from any thread; take only from the owning thread. Messages belong to the poster until post
 * succeeds and to the taker after it. */
#ifndef BRR_BASE_MAILBOX_H
#define BRR_BASE_MAILBOX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct message {
    struct message *next; /* owned by the mailbox while queued */
    int kind;             /* the pair of modules that talk agree on these */
};

struct mailbox;
typedef void mailbox_wake_fn(void *ctx);

/* wake (may be NULL) is called after each post that found the box empty, on the posting thread, with no lock held. */
struct mailbox *mailbox_new(size_t max_messages, mailbox_wake_fn *wake, void *ctx);
/* The owner must have taken every message first. NULL is fine. */
void mailbox_free(struct mailbox *box);
/* false when full or closed: the message is still the caller's. Never blocks. */
bool mailbox_post(struct mailbox *box, struct message *msg);
/* Like post, but waits for room up to timeout_ms (-1 = for ever). false on timeout or closed. */
bool mailbox_post_wait(struct mailbox *box, struct message *msg, int64_t timeout_ms);
/* Next message or NULL at once. */
struct message *mailbox_take(struct mailbox *box);
/* Next message, waiting up to timeout_ms (-1 = for ever). NULL on timeout, or closed and empty. */
struct message *mailbox_wait(struct mailbox *box, int64_t timeout_ms);
/* After close posts fail; waiting takers get what is queued and then NULL. */
void mailbox_close(struct mailbox *box);
size_t mailbox_count(const struct mailbox *box);

#endif
