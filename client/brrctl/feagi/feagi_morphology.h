/* feagi_morphology: rules by which FEAGI connects the voxels of two areas, as far as its published source determines their result.
 * One thread. */
#pragma once

#include "base/base.h"
#include "base/json.h"

/* A place in an area, or the size of one: x, y, z. */
struct feagi_voxel {
    uint32_t at[3];
};

struct feagi_morphology;
/* The rule of this name, as the genome's neuron_morphologies define it, or FEAGI's own. UNSUPPORTED names one whose result FEAGI
 * draws, or that its source does not carry out; INVALID, what is wrong with a definition. */
int feagi_morphology_new(const struct json *all, const char *name, struct feagi_morphology **ret, struct err *err);
void feagi_morphology_free(struct feagi_morphology *m); /* NULL is fine */

/* Every combination of the values along the axes; a list has room for as many as the target area is long there. */
struct feagi_targets {
    uint32_t *along[3], n[3];
};
/* A rule has parts, and each connects a voxel of `from` to voxels of `to`. */
int feagi_morphology_parts(const struct feagi_morphology *m);
void feagi_morphology_aim(const struct feagi_morphology *m, int part, const struct feagi_voxel *from, const struct feagi_voxel *to,
                          const struct feagi_voxel *source, struct feagi_targets *ret);
/* True where a target that several parts reach gets one synapse, and not one from each. */
bool feagi_morphology_unites(const struct feagi_morphology *m);
