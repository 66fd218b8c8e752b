/* sonata_parts: a SONATA network while it is read: nodes by population, then the edges between them, in arrays as the engine takes
 * them. Internal to client/brrctl/sonata. */
#pragma once
#include "burst/connectome.h"
#include "client/brrctl/sonata/hdf5_file.h"
#include "client/brrctl/sonata/sonata_config.h"
#include "client/brrctl/sonata/sonata_types.h"

/* How a node becomes a neuron. An instantaneous synapse is a current that lasts for one tick, and arrives a tick earlier. */
enum sonata_model { SONATA_VIRTUAL, SONATA_INTFIRE1, SONATA_DELTA, SONATA_EXPONENTIAL };

enum { SONATA_MOST_GROUPS = 1024 }; /* of a population */

struct sonata_id {
    int64_t id, at; /* of a node, and its position */
};
struct sonata_population {
    char name[64];
    int64_t first, n;        /* its neurons */
    int64_t *ids;            /* (n) node ids; NULL: 0 to n − 1 */
    struct sonata_id *by_id; /* (n) the same, sorted; NULL with ids */
    bool simulated;          /* it has a node that is not virtual */
};

/* Weights of a neuron's edges: a unit of which all of them are whole multiples, if there is one. */
struct sonata_unit {
    double largest;  /* weight */
    uint64_t common; /* the largest common divisor of weight · 10^decimals; 0: none yet */
    int decimals;    /* −1: some weight has too many */
};

struct sonata_network {
    double tick_ms;
    struct sonata_population *populations;
    int n_populations;
    int64_t neurons;
    float *v, *threshold, *leak, *current_leak, *current_gain; /* (neurons); current_gain before sonata_edges_pack: of weight 1 */
    uint16_t *refractory;
    uint32_t *area;
    uint8_t *model; /* (neurons) enum sonata_model */
    struct sonata_unit *units;
    struct connectome_area *areas;
    int n_areas;
    int64_t edges, room, rounded; /* rounded: neurons whose weights were */
    uint32_t *src, *dst;          /* (edges) */
    double *weight;               /* (edges) nsyns and the sign are in it */
    uint8_t *delay;               /* (edges) ticks for the engine */
};

/* Nodes of all files. */
int sonata_nodes_read(struct sonata_network *n, const struct sonata_config *c, struct err *err);
/* A file of the circuit: its value of `key`. */
int sonata_circuit_file(const struct sonata_config *c, const struct json *entry, const char *key, char ret[4096], struct err *err);
const struct sonata_population *sonata_population_of(const struct sonata_network *n, const char *name);
/* The neuron of a node; −1: none. */
int64_t sonata_neuron_of(const struct sonata_population *p, int64_t node_id);
/* A time as ticks; INVALID, with `what`, unless it is a whole number of them in low..high. */
int sonata_ticks(const struct sonata_network *n, double ms, int low, int high, const char *what, int *ret, struct err *err);

int sonata_edges_read(struct sonata_network *n, const struct sonata_config *c, struct err *err);
/* The edges as synapses of whole weights, malloc'd in one block; gains of the neurons become those of the weights' units. */
int sonata_edges_pack(struct sonata_network *n, struct connectome_arrays *ret, void **ret_memory, struct err *err);

/* Spikes of the simulation's inputs, as a table of injections. */
int sonata_inputs_write(const struct sonata_network *n, const struct sonata_config *c, const char *path, int64_t *ret_injections,
                        int64_t *ret_merged, struct err *err);

/* Spikes of a run, of nodes that are not virtual. */
int sonata_spikes_write(const struct sonata_network *n, const char *fired, const char *output, int64_t *ret_spikes,
                        struct err *err);

void sonata_network_done(struct sonata_network *n); /* also of a zeroed struct */
