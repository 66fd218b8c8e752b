/* feagi_file: a connectome that FEAGI has written, as plain arrays: a download as JSON, or the binary file of versions 1 and 2.
 * Other layouts are refused. One thread. */
#pragma once

#include "base/base.h"

/* Arrays of neurons and synapses, in the order of the binary file: type of an element, name, elements of each. */
#define FEAGI_NEURONS(X)                                                                                                           \
    X(float, membrane_potentials, 1)                                                                                               \
    X(float, thresholds, 1)                                                                                                        \
    X(float, leak_coefficients, 1)                                                                                                 \
    X(float, resting_potentials, 1)                                                                                                \
    X(int32_t, neuron_types, 1)                                                                                                    \
    X(uint16_t, refractory_periods, 1)                                                                                             \
    X(uint16_t, refractory_countdowns, 1)                                                                                          \
    X(float, excitabilities, 1)                                                                                                    \
    X(uint32_t, cortical_areas, 1)                                                                                                 \
    X(uint32_t, coordinates, 3)                                                                                                    \
    X(uint8_t, valid_mask, 1)
#define FEAGI_SYNAPSES(X)                                                                                                          \
    X(uint32_t, source_neurons, 1)                                                                                                 \
    X(uint32_t, target_neurons, 1)                                                                                                 \
    X(uint8_t, weights, 1)                                                                                                         \
    X(uint8_t, conductances, 1)                                                                                                    \
    X(uint8_t, types, 1)                                                                                                           \
    X(uint8_t, valid_mask, 1)

#define FEAGI_FIELD(type, name, each) type *name;
struct feagi_neurons {
    FEAGI_NEURONS(FEAGI_FIELD)
};
struct feagi_synapses {
    FEAGI_SYNAPSES(FEAGI_FIELD)
};
#undef FEAGI_FIELD

struct feagi_area {
    uint32_t id;
    char name[64];
};
struct feagi_connectome {
    int64_t n_neurons, n_synapses, n_areas;
    struct feagi_neurons neurons; /* (n_neurons); malloc'd */
    struct feagi_synapses synapses;
    struct feagi_area *areas;
    uint64_t burst_count;
    float power_amount;
};
/* UNSUPPORTED names what another version of FEAGI has; DATA_LOSS: the checksum is another one. */
int feagi_file_load(const char *path, struct feagi_connectome *ret, struct err *err);
void feagi_connectome_done(struct feagi_connectome *c); /* also of a zeroed struct */
