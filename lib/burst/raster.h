/* raster: a picture (SVG) of the spikes of a network: a row for each neuron over the ticks, and below it the share of each area's
 * neurons that fires. Memory and file are bounded for any number of neurons and ticks: of many neurons an even sample is drawn, in
 * which neurons that fire take the rows of silent neighbours, many ticks share a column, and beyond RASTER_MOST_AREAS areas the
 * small ones are drawn as one. One thread per raster. */
#pragma once

#include "burst/connectome.h"

enum { RASTER_COLUMNS = 1000, RASTER_ROWS = 360, RASTER_MOST_AREAS = 8 };

struct raster_network {
    int64_t neurons;
    const uint32_t *area_of; /* (neurons), below n_areas */
    const struct connectome_area *areas;
    int n_areas;
    int64_t first_tick, ticks; /* the ticks that are drawn: first_tick … first_tick + ticks − 1 */
};

struct raster;
/* Everything in *network is borrowed until raster_free. INVALID without neurons, areas or ticks. */
int raster_new(const struct raster_network *network, struct raster **ret, struct err *err);
void raster_free(struct raster *r); /* NULL is fine */
/* The neurons that fired in a tick, ascending; ticks in any order. Ticks that are not drawn are ignored. */
void raster_add(struct raster *r, int64_t tick, const uint32_t *ids, int64_t n);
/* Writes atomically. subtitle may be NULL. */
int raster_save(const struct raster *r, const char *path, const char *title, const char *subtitle, struct err *err);
