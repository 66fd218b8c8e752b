/* map: a hash table from strings to pointers, iterated in insertion order. Keys are copied; the caller owns the values.
 * At most max_entries entries. One thread at a time. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct map;

/* NULL when out of memory. */
struct map *map_new(size_t max_entries);
/* Frees keys and table, and the values through free_value unless it is NULL. Takes NULL. */
void map_free(struct map *map, void (*free_value)(void *));
/* Inserts or replaces. Returns 0, or ERR_EXHAUSTED when the map is full or out of memory. *ret_old (may be NULL) receives the
 * replaced value or NULL. */
int map_put(struct map *map, const char *key, void *value, void **ret_old);
void *map_get(const struct map *map, const char *key); /* NULL when absent */
void *map_remove(struct map *map, const char *key);    /* the value, or NULL */
/* A map that counts how many there are of each key has values of its own. map_tally adds n; false when memory is out, or the map is
 * full: then nothing has changed. Less of a key that is there never fails. */
int map_tally_of(const struct map *map, const char *key);
bool map_tally(struct map *map, const char *key, int n);
size_t map_count(const struct map *map);
/* Iterates: *cursor starts at 0; returns false at the end. Removing the current entry is allowed. */
int map_next(const struct map *map, size_t *cursor, const char **ret_key, void **ret_value);
