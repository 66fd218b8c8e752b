/* map: string → pointer hash table, insertion-ordered. Keys are copied, values belong to the caller.
 * One thread at a time. Bounded by max_entries of the constructor. */
#ifndef BRR_BASE_MAP_H
#define BRR_BASE_MAP_H
#include <stddef.h>

struct map;

/* NULL when out of memory. */
struct map *map_new(size_t max_entries);
/* Frees keys and table; values through free_value unless NULL. map may be NULL. */
void map_free(struct map *map, void (*free_value)(void *));
/* Insert or replace. 0, or ERR_EXHAUSTED when full or out of memory. *ret_old (if given) gets the value
 * replaced or NULL. */
int map_put(struct map *map, const char *key, void *value, void **ret_old);
void *map_get(const struct map *map, const char *key); /* NULL when absent */
void *map_remove(struct map *map, const char *key);    /* the value, or NULL */
size_t map_count(const struct map *map);
/* Iterate: *cursor starts at 0; false at the end. Removing the current entry is allowed. */
int map_next(const struct map *map, size_t *cursor, const char **ret_key, void **ret_value);

#endif
