/* stream_places: the device of each stream, and how many each device has. It carries orders of streams and models to their host and
 * brings the reports back. Loop thread. */
#pragma once
#include "daemon/hosts/device_set.h"
#include "daemon/live/live_message.h"

struct stream_places {
    struct device_set *set;
    int streams[DEVICE_SET_MAX];
};
/* The device for a new stream: the one of that name, or the one with the fewest streams. allowed: bit i if it may be device i; 0:
 * any. INVALID: the device of that name is not allowed. UNAVAILABLE: it takes nothing new. */
int stream_places_choose(const struct stream_places *p, const char *wanted, uint32_t allowed, int *ret, struct err *err);
/* Posts an order for a stream or a model to its device, and takes ownership of it; false if too many orders wait. */
bool stream_places_post(struct stream_places *p, struct live_order *o);
/* A report of any device, whose index it carries; NULL if none waits. */
struct live_report *stream_places_take(struct stream_places *p);
