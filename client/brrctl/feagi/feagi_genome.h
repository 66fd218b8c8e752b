/* feagi_genome: what a genome of FEAGI says of cortical areas and a connectome lacks. Both forms of a blueprint are read: genes
 * ("_____10c-AREA-nx-snooze-f"), and an object for each area. One thread. */
#pragma once

#include "base/base.h"
#include "base/json.h"

/* The properties that a connectome lacks: field, gene, name in an object, value where a genome has none (NAN: it must have one). */
#define FEAGI_PROPERTIES(X)                                                                                                        \
    X(threshold_limit, "nx-fthlim-f", "firing_threshold_limit", NAN)                                                               \
    X(fire_limit, "nx-c_fr_c-i", "consecutive_fire_cnt_max", NAN)                                                                  \
    X(snooze, "nx-snooze-f", "snooze_length", NAN)                                                                                 \
    X(accumulates, "nx-mp_acc-b", "mp_charge_accumulation", NAN)                                                                   \
    X(driven, "nx-mp_psp-b", "mp_driven_psp", NAN)                                                                                 \
    X(uniform, "cx-pspuni-b", "psp_uniform_distribution", NAN)
/* And those of which FEAGI grows an area. */
#define FEAGI_SEEDS(X)                                                                                                             \
    X(threshold, "nx-fire_t-f", "firing_threshold", NAN)                                                                           \
    X(threshold_x, "nx-ftincx-f", "firing_threshold_increment_x", 0)                                                               \
    X(threshold_y, "nx-ftincy-f", "firing_threshold_increment_y", 0)                                                               \
    X(threshold_z, "nx-ftincz-f", "firing_threshold_increment_z", 0)                                                               \
    X(leak, "nx-leak_c-f", "leak_coefficient", NAN)                                                                                \
    X(leak_variability, "nx-leak_v-f", "leak_variability", 0)                                                                      \
    X(excitability, "nx-excite-f", "neuron_excitability", NAN)                                                                     \
    X(refractory, "nx-refrac-i", "refractory_period", NAN)                                                                         \
    X(psp, "nx-pstcr_-f", "postsynaptic_current", NAN)                                                                             \
    X(per_voxel, "cx-_n_cnt-i", "per_voxel_neuron_cnt", 1)                                                                         \
    X(attractivity, "cx-synatt-f", "synapse_attractivity", 100)                                                                    \
    X(degeneration, "cx-de_gen-f", "degeneration", 0)

#define FEAGI_PROPERTY(field, gene, name, absent) double field;
struct feagi_properties {
    FEAGI_PROPERTIES(FEAGI_PROPERTY)
};
struct feagi_seeds {
    FEAGI_SEEDS(FEAGI_PROPERTY)
    double size[3];
    const struct json *mappings; /* to each target area, a list of rules; of the genome */
};
#undef FEAGI_PROPERTY

struct feagi_genome;
/* UNSUPPORTED names a mapping that is plastic, or an area of memory. */
int feagi_genome_load(const char *path, struct feagi_genome **ret, struct err *err);
void feagi_genome_free(struct feagi_genome *g); /* NULL is fine */
/* INVALID names the area and the property that the genome lacks. */
int feagi_genome_area(const struct feagi_genome *g, const char *area, struct feagi_properties *ret, struct err *err);
int feagi_genome_seeds(const struct feagi_genome *g, const char *area, struct feagi_seeds *ret, struct err *err);
const struct json *feagi_genome_morphologies(const struct feagi_genome *g);
/* Names of its areas, in its order. */
enum { FEAGI_NAME_SIZE = 64 };
int feagi_genome_names(const struct feagi_genome *g, char (**ret)[FEAGI_NAME_SIZE], int *ret_n, struct err *err);
