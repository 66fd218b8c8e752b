/* network_places: the names of the daemon's spiking networks and the device of each, for burst/burst_service. A name is there from
 * the order that creates the network to the answer that it is gone. Loop thread. */
#pragma once
#include "daemon/burst/networks.h"

struct network_places;
struct network_places *network_places_new(int most); /* NULL when out of memory */
void network_places_free(struct network_places *p);  /* NULL is allowed */
/* The index of the network's device; -1: there is no such network. */
int network_places_find(const struct network_places *p, const char *name);
bool network_places_full(const struct network_places *p);
int network_places_of(const struct network_places *p, const char *owner); /* how many are this caller's */
/* A name that no network has. */
void network_places_pick(struct network_places *p, char ret_name[NETWORK_NAME_SIZE]);
/* An order that creates the network goes to this device; network_places_end must follow with its answer. The table is not full. */
void network_places_begin(struct network_places *p, const char *name, const char *owner, int device);
void network_places_end(struct network_places *p, const char *name, bool made);
void network_places_drop(struct network_places *p, const char *name); /* it was destroyed */
