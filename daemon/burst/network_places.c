#include "daemon/burst/network_places.h"

#include "base/principal.h"

struct item {
    char name[NETWORK_NAME_SIZE], owner[NETWORK_OWNER_SIZE];
    int device;
    bool exists;
    int creating; /* orders that are not answered: a name may be given again before the answer that its network is gone */
};

struct network_places {
    int most, n;
    int64_t picked; /* names so far */
    struct item items[];
};

struct network_places *network_places_new(int most) {
    struct network_places *p = calloc(1, sizeof *p + (size_t)most * sizeof p->items[0]);
    if (p)
        p->most = most;
    return p;
}

void network_places_free(struct network_places *p) { free(p); }

static struct item *item_of(struct network_places *p, const char *name) {
    for (int i = 0; i < p->n; i++)
        if (!strcmp(p->items[i].name, name))
            return &p->items[i];
    return NULL;
}

int network_places_find(const struct network_places *p, const char *name) {
    const struct item *item = item_of((struct network_places *)(uintptr_t)p, name);
    return item ? item->device : -1;
}

bool network_places_full(const struct network_places *p) { return p->n == p->most; }

int network_places_of(const struct network_places *p, const char *owner) {
    int n = 0;
    for (int i = 0; i < p->n; i++)
        n += principal_is_same(p->items[i].owner, owner);
    return n;
}

void network_places_pick(struct network_places *p, char ret_name[NETWORK_NAME_SIZE]) {
    do
        str_format(ret_name, NETWORK_NAME_SIZE, "net-%lld", (long long)++p->picked);
    while (item_of(p, ret_name));
}

void network_places_begin(struct network_places *p, const char *name, const char *owner, int device) {
    struct item *item = item_of(p, name);
    if (!item) {
        item = &p->items[p->n++];
        *item = (struct item){.device = device};
        str_copy(item->name, sizeof item->name, name);
        str_copy(item->owner, sizeof item->owner, owner);
    }
    item->creating++;
}

/* A name without a network leaves the table. */
static void settle(struct network_places *p, struct item *item) {
    if (!item->exists && !item->creating)
        *item = p->items[--p->n];
}

void network_places_end(struct network_places *p, const char *name, bool made) {
    struct item *item = item_of(p, name);
    if (!item)
        return;
    item->creating--;
    item->exists = item->exists || made;
    settle(p, item);
}

void network_places_drop(struct network_places *p, const char *name) {
    struct item *item = item_of(p, name);
    if (!item)
        return;
    item->exists = false;
    settle(p, item);
}
