/* hooks: tells commands and receivers of POSTs about alarms, each on a thread of its own and in order, so that a slow one delays no
 * other. A POST is tried again, after 1 s and then up to 5 min, until it was taken, refused for good, or HOOKS_GIVE_UP_MS old; a
 * command runs once. Deliveries come from the journal's outbox and leave it when they are done, so they survive a restart; a
 * receiver may see one twice and knows it by its id. Loop thread, except for the outlet and hooks_test. */
#ifndef BRR_DAEMON_HOOKS_HOOKS_H
#define BRR_DAEMON_HOOKS_HOOKS_H
#include "base/metrics.h"
#include "daemon/hooks/hook.h"
#include "daemon/journal/outlet.h"

#define HOOKS_GIVE_UP_MS (24 * 3600 * INT64_C(1000))
enum { HOOKS_WAITING = 256 }; /* in memory, for each hook; others wait in the outbox */

struct journal;
struct hooks;
/* Reads the secrets; n hooks, which are borrowed. DENIED: others can read a secret. */
int hooks_new(const struct hook *list, int n, struct metrics *metrics, struct hooks **ret, struct err *err);
/* What the journal is given; valid until hooks_free. */
const struct outlet *hooks_outlet(const struct hooks *all);
/* Starts the threads. The journal is told what is done. */
int hooks_start(struct hooks *all, struct journal *journal, struct err *err);
/* Ends the threads; attempts in progress are given up. NULL is fine. */
void hooks_stop(struct hooks *all);
void hooks_free(struct hooks *all); /* after the journal has stopped; NULL is fine */

int hooks_count(const struct hooks *all);
const struct hook *hooks_at(const struct hooks *all, int i);
/* One attempt with a test alarm; the caller waits. Any thread. */
int hooks_test(const struct hooks *all, int i, const atomic_bool *stop, struct err *err);

#endif
