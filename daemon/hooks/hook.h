/* hook: somebody to tell about alarms: a command, or the receiver of a signed POST. Plain data and one attempt at a delivery; any
 * thread. */
#ifndef BRR_DAEMON_HOOKS_HOOK_H
#define BRR_DAEMON_HOOKS_HOOK_H
#include <stdatomic.h>

#include "base/err.h"
#include "daemon/journal/journal_entry.h"

enum { HOOKS_MAX = 16, HOOK_NAME = 64, HOOK_SECRET_BYTES = 4096 };

/* One element of alarms.hooks; texts are borrowed. */
struct hook {
    const char *name;
    const char **command; /* its words, n_words of them and NULL; or NULL */
    int n_words;
    const char *url, *secret_file, *ca; /* url NULL: a command. ca NULL: those of the system */
    const char *bed, *model;            /* fnmatch patterns of the client's name and of the model's */
    unsigned kinds;                     /* bits 1 << enum journal_kind */
    unsigned steps;                     /* bits 1 << step of the escalation, from 1: told then, and of nothing else; 0: none */
    int64_t timeout_ms;                 /* of one attempt */
};

bool hook_wants(const struct hook *h, const struct journal_entry *e);
/* "{"id":…,"hook":…,"test":…,"entry":{…}}" for the receiver, malloc'd; NULL when out of memory. */
char *hook_body(const struct hook *h, const struct journal_entry *e, const char *id, bool test);
/* One attempt: runs the command with the body as its standard input, or sends the POST. INVALID: trying again would not help. stop
 * (may be NULL) ends it early. secret: contents of secret_file, NULL for a command. */
struct hook_attempt {
    const char *id, *body, *secret;
    const atomic_bool *stop;
};
int hook_attempt(const struct hook *h, const struct hook_attempt *a, struct err *err);

#endif
