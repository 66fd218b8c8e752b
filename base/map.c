#include "base/map.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct entry {
    char *key; /* NULL = removed */
    void *value;
    uint64_t hash;
};

struct map {
    struct entry *entries; /* insertion order */
    uint32_t *slots;       /* index + 1 into entries; 0 = free */
    size_t used, live, cap, n_slots, max;
};

static uint64_t hash_of(const char *key) { /* FNV-1a */
    uint64_t h = 0xcbf29ce484222325u;
    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 0x100000001b3u;
    return h;
}

struct map *map_new(size_t max_entries) {
    struct map *map = calloc(1, sizeof *map);
    if (map)
        map->max = max_entries < UINT32_MAX - 1 ? max_entries : UINT32_MAX - 1;
    return map;
}

void map_free(struct map *map, void (*free_value)(void *)) {
    if (!map)
        return;
    for (size_t i = 0; i < map->used; i++) {
        if (map->entries[i].key && free_value)
            free_value(map->entries[i].value);
        free(map->entries[i].key);
    }
    free(map->entries);
    free(map->slots);
    free(map);
}

static struct entry *find(const struct map *map, const char *key, uint64_t hash) {
    if (!map->n_slots)
        return NULL;
    for (size_t i = hash & (map->n_slots - 1);; i = (i + 1) & (map->n_slots - 1)) {
        if (!map->slots[i])
            return NULL;
        struct entry *e = &map->entries[map->slots[i] - 1];
        if (e->key && e->hash == hash && !strcmp(e->key, key))
            return e;
    }
}

/* Drop removed entries and rebuild the slots for `cap` entries. */
static bool rebuild(struct map *map, size_t cap) {
    size_t n_slots = 16;
    while (n_slots < 2 * cap)
        n_slots *= 2;
    struct entry *entries = calloc(cap, sizeof *entries);
    uint32_t *slots = calloc(n_slots, sizeof *slots);
    if (!entries || !slots) {
        free(entries);
        free(slots);
        return false;
    }
    size_t n = 0;
    for (size_t i = 0; i < map->used; i++) {
        if (!map->entries[i].key)
            continue;
        size_t at = map->entries[i].hash & (n_slots - 1);
        while (slots[at])
            at = (at + 1) & (n_slots - 1);
        entries[n] = map->entries[i];
        slots[at] = (uint32_t)++n;
    }
    free(map->entries);
    free(map->slots);
    map->entries = entries;
    map->slots = slots;
    map->used = n;
    map->cap = cap;
    map->n_slots = n_slots;
    return true;
}

int map_put(struct map *map, const char *key, void *value, void **ret_old) {
    uint64_t hash = hash_of(key);
    struct entry *e = find(map, key, hash);
    if (ret_old)
        *ret_old = e ? e->value : NULL;
    if (e) {
        e->value = value;
        return 0;
    }
    if (map->live >= map->max)
        return ERR_EXHAUSTED;
    if (map->used == map->cap && !rebuild(map, map->live * 2 > 16 ? map->live * 2 : 16))
        return ERR_EXHAUSTED;
    char *copy = strdup(key);
    if (!copy)
        return ERR_EXHAUSTED;
    size_t at = hash & (map->n_slots - 1);
    while (map->slots[at])
        at = (at + 1) & (map->n_slots - 1);
    map->entries[map->used++] = (struct entry){copy, value, hash};
    map->slots[at] = (uint32_t)map->used;
    map->live++;
    return 0;
}

void *map_get(const struct map *map, const char *key) {
    struct entry *e = find(map, key, hash_of(key));
    return e ? e->value : NULL;
}

void *map_remove(struct map *map, const char *key) {
    struct entry *e = find(map, key, hash_of(key));
    if (!e)
        return NULL;
    free(e->key);
    e->key = NULL;
    map->live--;
    return e->value;
}

int map_tally_of(const struct map *map, const char *key) { return (int)(intptr_t)map_get(map, key); }

bool map_tally(struct map *map, const char *key, int n) {
    const intptr_t sum = map_tally_of(map, key) + (intptr_t)n;
    if (!sum)
        map_remove(map, key);
    return !sum || !map_put(map, key, (void *)sum, NULL);
}

size_t map_count(const struct map *map) { return map->live; }

int map_next(const struct map *map, size_t *cursor, const char **ret_key, void **ret_value) {
    while (*cursor < map->used) {
        const struct entry *e = &map->entries[(*cursor)++];
        if (!e->key)
            continue;
        *ret_key = e->key;
        *ret_value = e->value;
        return 1;
    }
    return 0;
}
