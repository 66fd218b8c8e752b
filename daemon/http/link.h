/* link: the keys of one-time links, by which a user of this machine opens the pages of a daemon without tokens: who may use the
 * unix socket asks for one, and the first browser that follows it is signed in. Any thread. */
#pragma once
#include "base/base.h"

enum { LINK_KEY_SIZE = 65, LINKS_MAX = 16, LINK_MS = 5 * 60 * 1000 };

struct links {
    pthread_mutex_t lock;
    struct {
        char key[LINK_KEY_SIZE]; /* "" = none */
        int64_t until_ms;
    } all[LINKS_MAX];
    int next;
};
void links_init(struct links *l);
void links_done(struct links *l);
/* A new key, valid once within LINK_MS; it takes the place of the oldest of LINKS_MAX. False if the system gives no random numbers.
 */
bool links_make(struct links *l, int64_t now_ms, char ret[LINK_KEY_SIZE]);
/* True if the key is valid; it is not any more then. */
bool links_use(struct links *l, const char *key, int64_t now_ms);
