/* feagi: a connectome or a genome of FEAGI as a network file of the burst engine (docs/burst.md). One thread. */
#pragma once

#include "base/base.h"

/* True if the file begins as a connectome of FEAGI does, binary or JSON. */
bool feagi_is_connectome(const char *path);

struct feagi_told {
    int64_t neurons, synapses, deleted_neurons, deleted_synapses;
    uint64_t tick;
};
/* A snapshot at the connectome's burst: membranes, countdowns and deleted neurons are part of it. */
int feagi_import(const char *path, const char *genome, const char *output, struct feagi_told *ret, struct err *err);

/* True if the file is JSON with a blueprint. */
bool feagi_is_genome(const char *path);
/* The network that FEAGI grows of a genome, before its first tick. UNSUPPORTED names what FEAGI draws, and what the engine has not.
 */
int feagi_grow(const char *genome, const char *output, struct feagi_told *ret, struct err *err);
