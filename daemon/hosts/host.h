/* host: a thread that computes for callers who wait. It takes orders from a mailbox and runs short steps while any is due. It opens
 * no files and shares nothing with the device's other threads but the device. The owner of the orders is the loop thread; answers
 * travel through mailboxes that the work knows. What it computes is a struct host_work: live windows and replays
 * (live/live_host.h), spiking networks (burst/network_host.h). */
#pragma once

#include "base/base.h"
#include "base/mailbox.h"

enum { HOST_WAITS_TEXT = 4096 + 64 };

/* The functions of a kind of work; all run on the host's thread, but where it is said. */
struct host_work {
    const char *name; /* of the thread, at most 15 characters */
    int niceness;     /* as of daemon/hosts/niceness.h */
    bool prompt;      /* a woken thread computes at once (niceness_set_prompt) */
    /* ctx is that of host_start. On failure nothing is left. */
    int (*open)(void *ctx, void **ret_state, struct err *err);
    void (*order)(void *state, struct message *order); /* carries out or queues an order; owns it from now on */
    bool (*step)(void *state);                         /* runs one step; false when none is due */
    /* After a step that was not due: in how many milliseconds one is, if no order comes before; -1, or NULL: an order must come. */
    int64_t (*pause_ms)(void *state);
    /* Orders wait for the end of a pause that is no longer than so many milliseconds, so that many share a wake-up. NULL: 0. */
    int64_t (*sleeps_ms)(void *state);
    /* Returns the orders that nobody was told about, linked by next; they are the owner's again. */
    struct message *(*close)(void *state);
    /* "waits for WHAT since TIME" while a part of the work waits for something outside the device; false: it does not. Any thread.
     * NULL: it never does. */
    bool (*waits)(void *state, char ret_text[HOST_WAITS_TEXT]);
};

struct host;
/* Returns when open has succeeded or failed. work and ctx must outlive the host. */
int host_start(const struct host_work *work, void *ctx, struct host **ret, struct err *err);
/* Carries out the orders that wait, closes the work and joins the thread. Returns the orders that nobody was told about. NULL is
 * allowed. */
struct message *host_stop(struct host *h);
/* Takes ownership of the order; false if too many wait or the host is stopping: the caller then still owns it. Any thread. */
bool host_post(struct host *h, struct message *order);
/* Waits for room; false only if the host is stopping. Any thread but the host's. */
bool host_post_wait(struct host *h, struct message *order);
/* How long the host has been at its present order or step, in milliseconds; 0 when it has nothing to do. Any thread. */
int64_t host_busy_ms(const struct host *h);
/* host_work.waits. Any thread. */
bool host_waits(const struct host *h, char ret_text[HOST_WAITS_TEXT]);
