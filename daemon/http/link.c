#include "daemon/http/link.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

void links_init(struct links *l) {
    *l = (struct links){0};
    pthread_mutex_init(&l->lock, NULL);
}

void links_done(struct links *l) { pthread_mutex_destroy(&l->lock); }

bool links_make(struct links *l, int64_t now_ms, char ret[LINK_KEY_SIZE]) {
    unsigned char bytes[(LINK_KEY_SIZE - 1) / 2];
    if (RAND_priv_bytes(bytes, sizeof bytes) != 1)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    pthread_mutex_lock(&l->lock);
    memcpy(l->all[l->next].key, ret, LINK_KEY_SIZE);
    l->all[l->next].until_ms = now_ms + LINK_MS;
    l->next = (l->next + 1) % LINKS_MAX;
    pthread_mutex_unlock(&l->lock);
    return true;
}

bool links_use(struct links *l, const char *key, int64_t now_ms) {
    bool used = false;
    if (strlen(key) != LINK_KEY_SIZE - 1)
        return false;
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < LINKS_MAX; i++) {
        if (!*l->all[i].key || CRYPTO_memcmp(l->all[i].key, key, LINK_KEY_SIZE) != 0)
            continue;
        used = now_ms < l->all[i].until_ms;
        l->all[i].key[0] = '\0';
    }
    pthread_mutex_unlock(&l->lock);
    return used;
}
