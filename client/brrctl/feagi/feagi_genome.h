/* feagi_genome: what a genome of FEAGI says of cortical areas and a connectome lacks. Both forms of a blueprint are read: genes
 * ("_____10c-AREA-nx-snooze-f"), and an object for each area. One thread. */
#ifndef BRR_CLIENT_BRRCTL_FEAGI_FEAGI_GENOME_H
#define BRR_CLIENT_BRRCTL_FEAGI_FEAGI_GENOME_H
#include <stdbool.h>

#include "base/err.h"

/* The properties: field, gene, name in an object. */
#define FEAGI_PROPERTIES(X)                                                                                                        \
    X(threshold_limit, "nx-fthlim-f", "firing_threshold_limit")                                                                    \
    X(fire_limit, "nx-c_fr_c-i", "consecutive_fire_cnt_max")                                                                       \
    X(snooze, "nx-snooze-f", "snooze_length")                                                                                      \
    X(accumulates, "nx-mp_acc-b", "mp_charge_accumulation")                                                                        \
    X(driven, "nx-mp_psp-b", "mp_driven_psp")                                                                                      \
    X(uniform, "cx-pspuni-b", "psp_uniform_distribution")

struct feagi_properties {
#define FEAGI_PROPERTY(field, gene, name) double field;
    FEAGI_PROPERTIES(FEAGI_PROPERTY)
#undef FEAGI_PROPERTY
};

struct feagi_genome;
/* UNSUPPORTED names a mapping that is plastic, or an area of memory. */
int feagi_genome_load(const char *path, struct feagi_genome **ret, struct err *err);
void feagi_genome_free(struct feagi_genome *g); /* NULL is fine */
/* INVALID names the area and the property that the genome lacks. */
int feagi_genome_area(const struct feagi_genome *g, const char *area, struct feagi_properties *ret, struct err *err);

#endif
