/* montage: from the channel labels of a file to the model's input channels, as a mixing matrix over the source channels used.
 * Names are cleaned first: blanks and trailing dots go, case is ignored, a leading EEG or POL and one name of a reference go,
 * behind
 * - _ : / or in brackets or directly behind an electrode (REF, LE, AR, AV, AVE, AVG, CAR, CS2, A1A2, M1M2, …), T7 T8 P7 P8 become
 * T3 T4 T5 T6 also in pairs (T3/T7, T3(T7)), 01 and 02 become O1 and O2, a counter (-0, -1) of doubled labels goes; the first of
 * equal labels is used. A bipolar label never matches an electrode. Ways to an output, in this order: the channel itself (or its
 * reverse), the difference of two electrodes, spherical-spline interpolation when only Fz or Pz are missing, and for electrodes of
 * a bipolar recording the minimum-norm inverse of its derivations followed by the average reference. Anything else is an error.
 * Immutable after montage_new; any thread. */
#pragma once

#include "base/base.h"

enum { MONTAGE_MAX_OUTPUTS = 64, MONTAGE_MAX_LABELS = 1024, MONTAGE_LABEL_SIZE = 32, MONTAGE_LOOP_EDGES = 8 };

/* A closed path of bipolar channels: sum of sign × channel is 0 µV up to rounding, for any EEG. */
struct montage_loop {
    const char *name;                /* "left chain" */
    int source[MONTAGE_LOOP_EDGES];  /* positions in montage.sources */
    double sign[MONTAGE_LOOP_EDGES]; /* +1 or −1 */
};

struct montage {
    int n_outputs, n_sources;
    char (*names)[MONTAGE_LABEL_SIZE];  /* output names, (n_outputs) */
    int *sources;                       /* index into the labels, ascending, (n_sources) */
    char (*labels)[MONTAGE_LABEL_SIZE]; /* of the sources, as they were given, at most that long, (n_sources) */
    double *matrix;                     /* (n_outputs, n_sources), row-major */
    bool inverse;                       /* minimum-norm inverse of bipolar channels */
    int interpolated;                   /* electrodes made by spherical spline */
    struct montage_loop loops[2];       /* loops whose eight channels are all among the sources */
    int n_loops;
    char note[256]; /* "" or a note for the user */
};

/* spec: "referential-19", "bipolar-18" or "custom:LABEL,LABEL,…". Errors: INVALID (spec, too many labels), PRECONDITION (electrodes
 * missing: names them and the labels present). */
int montage_new(const char *spec, const char *const *labels, int n_labels, struct montage **ret, struct err *err);
/* The same; the error of missing electrodes also names the signals that the labels leave out ("" = none; about
 * MONTAGE_IGNORED_ROOM bytes). */
enum { MONTAGE_IGNORED_ROOM = 75 };
int montage_new_of(const char *spec, const char *const *labels, int n_labels, const char *ignored, struct montage **ret,
                   struct err *err);
/* The outputs, as bits, that this one of the sources is part of. */
uint64_t montage_rows_of(const struct montage *m, int source);
void montage_free(struct montage *m);
OWNABLE(struct montage, montage_free)

/* The cleaned form of a label ("EEG FP1-REF" → "Fp1", "T7-P7" → "T3-T5", "Photic PH" → "PHOTICPH"). */
void montage_clean(const char *label, char ret[MONTAGE_LABEL_SIZE]);

/* How many of the 19 electrodes the labels name, alone or in derivations. */
int montage_electrodes(const char *const *labels, int n_labels);

/* Potentials of n_nodes electrodes from n_edges differences: the minimum-norm least-squares solution as a matrix,
 * inverse (n_nodes, n_edges). Edge e measures node plus[e] minus node minus[e]; nodes without edges get zero rows.
 * With L = DᵀD the Laplacian of the graph and J the projector on its null space (constants of each connected part),
 * pinv(D) = ((L + J)⁻¹ − J) Dᵀ exactly; the rank is known from the graph, so no tolerance is involved. */
int montage_invert(const int *plus, const int *minus, int n_edges, int n_nodes, double *inverse, struct err *err);

/* Weights (n_known) of the spherical-spline interpolation (Perrin et al. 1989, order 4, 50 Legendre terms) of one of
 * the 19 electrodes from others; names are cleaned. ERR_INVALID for a name without a known position. */
int montage_spline(const char *target, const char *const *known, int n_known, double *weights, struct err *err);
