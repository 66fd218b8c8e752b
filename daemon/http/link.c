#include "daemon/http/link.h"

#include <sys/random.h>

void links_init(struct links *l) {
    *l = (struct links){0};
    pthread_mutex_init(&l->lock, NULL);
}

void links_done(struct links *l) { pthread_mutex_destroy(&l->lock); }

bool links_make(struct links *l, int64_t now_ms, char ret[LINK_KEY_SIZE]) {
    unsigned char bytes[(LINK_KEY_SIZE - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    LOCKED(&l->lock);
    memcpy(l->all[l->next].key, ret, LINK_KEY_SIZE);
    l->all[l->next].until_ms = now_ms + LINK_MS;
    l->next = (l->next + 1) % LINKS_MAX;
    return true;
}

/* In a time that does not depend on where they differ. */
static bool is_same(const char *a, const char *b) {
    unsigned char differ = 0;
    for (int i = 0; i < LINK_KEY_SIZE; i++)
        differ |= (unsigned char)(a[i] ^ b[i]);
    return !differ;
}

bool links_use(struct links *l, const char *key, int64_t now_ms) {
    bool used = false;
    if (strlen(key) != LINK_KEY_SIZE - 1)
        return false;
    LOCKED(&l->lock);
    for (int i = 0; i < LINKS_MAX; i++) {
        if (!*l->all[i].key || !is_same(l->all[i].key, key))
            continue;
        used = now_ms < l->all[i].until_ms;
        l->all[i].key[0] = '\0';
    }
    return used;
}
