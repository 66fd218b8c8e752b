#include "burst/column.h"

#include "base/rng.h"
#include "kernels/lanes.h"

#define POPULATIONS COLUMN_POPULATIONS

/* ---- the column's figures: times in ms, membranes in mV, currents in pA, capacities in pF, rates in spikes/s ---- */

static const char *const names[POPULATIONS] = {"L2/3E", "L2/3I", "L4E", "L4I", "L5E", "L5I", "L6E", "L6I"};
static const int neurons_of[POPULATIONS] = {20683, 5834, 21915, 5479, 4850, 1065, 14395, 2948};
static const int external[POPULATIONS] = {1600, 1500, 2100, 1900, 2000, 1900, 2900, 2100}; /* Poisson sources of a neuron */
/* Chance of a connection, by target and source. */
static const double chance[POPULATIONS][POPULATIONS] = {{0.1009, 0.1689, 0.0437, 0.0818, 0.0323, 0, 0.0076, 0},
                                                        {0.1346, 0.1371, 0.0316, 0.0515, 0.0755, 0, 0.0042, 0},
                                                        {0.0077, 0.0059, 0.0497, 0.1350, 0.0067, 0.0003, 0.0453, 0},
                                                        {0.0691, 0.0029, 0.0794, 0.1597, 0.0033, 0, 0.1057, 0},
                                                        {0.1004, 0.0622, 0.0505, 0.0057, 0.0831, 0.3726, 0.0204, 0},
                                                        {0.0548, 0.0269, 0.0257, 0.0022, 0.0600, 0.3158, 0.0086, 0},
                                                        {0.0156, 0.0066, 0.0211, 0.0166, 0.0572, 0.0197, 0.0396, 0.2252},
                                                        {0.0364, 0.0010, 0.0034, 0.0005, 0.0277, 0.0080, 0.0658, 0.1443}};
/* Rates of the whole column with Poisson input, from which smaller scales take the mean input that they lack. */
static const double rate[POPULATIONS] = {0.903, 2.965, 4.414, 5.876, 7.569, 8.633, 1.105, 7.829};
/* Membranes at the start, from rest. */
static const double start_mean[POPULATIONS] = {-3.28, 1.84, 1.67, 1.55, 1.89, 3.34, -1.72, 3.57};
static const double start_deviation[POPULATIONS] = {5.36, 4.57, 4.74, 4.94, 4.94, 4.55, 5.46, 4.48};

#define TICK_MS     0.1
#define MEMBRANE_MS 10.0
#define SYNAPSE_MS  0.5
#define CAPACITY    250.0
#define THRESHOLD   15.0
#define EXTERNAL_HZ 8.0
#define PSC         87.8 /* an excitatory synapse's, of 0.15 mV */
enum { REFRACTORY_TICKS = 20, WEIGHT = 100, STRONGER = 4 };

/* ---- drawing ---------------------------------------------------------------------------------------------------- */

struct column {
    double scale;
    uint64_t seed;
    uint32_t first[POPULATIONS + 1];
    int64_t synapses[POPULATIONS][POPULATIONS], total;
    int64_t at[POPULATIONS * POPULATIONS]; /* the first synapse of each pair */
    struct connectome_area areas[POPULATIONS];
    float *v, *threshold, *leak, *current_leak, *current_gain;
    uint16_t *refractory;
    uint32_t *area, *src, *dst;
    uint8_t *weight, *psp, *type, *delay;
};

static void column_done(struct column *c) {
    void *const all[] = {c->v,   c->threshold, c->leak,   c->current_leak, c->current_gain, c->refractory, c->area,
                         c->src, c->dst,       c->weight, c->psp,          c->type,         c->delay};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* Nearly normal, of mean 0 and deviation 1: a sum of twelve 16-bit numbers, the same on every machine. */
static double normal(struct rng *rng) {
    uint32_t sum = 0;
    for (int i = 0; i < 6; i++) {
        uint32_t word = rng_u32(rng);
        sum += (word & 0xffff) + (word >> 16);
    }
    return ((double)sum - 6 * 65535.0) / 65536;
}

static double clamped(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

/* Connections are drawn with repetition, so many of them that any two neurons have the chance. */
static void column_count(struct column *c) {
    for (int i = 0; i < POPULATIONS; i++)
        c->first[i + 1] = c->first[i] + (uint32_t)rint(neurons_of[i] * c->scale);
    for (int i = 0; i < POPULATIONS; i++)
        for (int j = 0; j < POPULATIONS; j++) {
            double pairs = (double)neurons_of[i] * neurons_of[j], whole = log1p(-chance[i][j]) / log1p(-1 / pairs);
            c->synapses[i][j] = (int64_t)rint(whole * c->scale * c->scale);
            c->at[i * POPULATIONS + j] = c->total;
            c->total += c->synapses[i][j];
        }
}

static int column_alloc(struct column *c, struct err *err) {
    size_t n = c->first[POPULATIONS], s = (size_t)c->total;
    bool ok = (c->v = malloc(n * sizeof *c->v)) && (c->threshold = malloc(n * sizeof *c->threshold)) &&
              (c->leak = malloc(n * sizeof *c->leak)) && (c->current_leak = malloc(n * sizeof *c->current_leak)) &&
              (c->current_gain = malloc(n * sizeof *c->current_gain)) && (c->refractory = malloc(n * sizeof *c->refractory)) &&
              (c->area = malloc(n * sizeof *c->area)) && (c->src = malloc(s * sizeof *c->src)) &&
              (c->dst = malloc(s * sizeof *c->dst)) && (c->weight = malloc(s)) && (c->psp = malloc(s)) && (c->type = malloc(s)) &&
              (c->delay = malloc(s));
    return ok ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for a column of %zu neurons and %zu synapses", n, s);
}

/* Exact for a membrane and a current that decay between two ticks. With fewer synapses each of them weighs more. */
static void draw_population(struct column *c, int p) {
    double kept = exp(-TICK_MS / MEMBRANE_MS), current_kept = exp(-TICK_MS / SYNAPSE_MS);
    double gain = (kept - current_kept) / (1 / SYNAPSE_MS - 1 / MEMBRANE_MS) / CAPACITY * PSC / WEIGHT / sqrt(c->scale);
    struct rng rng;
    rng_init(&rng, c->seed, RNG_WIRING, (uint32_t)p);
    for (uint32_t i = c->first[p]; i < c->first[p + 1]; i++) {
        c->v[i] = (float)(start_mean[p] + start_deviation[p] * normal(&rng));
        c->threshold[i] = (float)THRESHOLD;
        c->leak[i] = (float)(1 - kept);
        c->current_leak[i] = (float)(1 - current_kept);
        c->current_gain[i] = (float)gain;
        c->refractory[i] = REFRACTORY_TICKS;
        c->area[i] = (uint32_t)p;
    }
}

static bool inhibits(int p) { return p % 2; }
/* Synapses from L4E to L2/3E weigh twice as much as other excitatory ones. */
static int psp_of(int target, int source) { return inhibits(source) ? STRONGER : target == 0 && source == 2 ? 2 : 1; }

/* The mean input of the synapses and sources that a smaller column lacks, as a potential for each tick. */
static double lacking(const struct column *c, int p) {
    double kept = exp(-TICK_MS / MEMBRANE_MS), current_kept = exp(-TICK_MS / SYNAPSE_MS), per_s = external[p] * EXTERNAL_HZ;
    for (int j = 0; j < POPULATIONS; j++) {
        double in_degree = log1p(-chance[p][j]) / log1p(-1 / ((double)neurons_of[p] * neurons_of[j])) / neurons_of[p];
        per_s += in_degree * rate[j] * psp_of(p, j) * (inhibits(j) ? -1 : 1);
    }
    double mean = per_s / 1000 * SYNAPSE_MS * WEIGHT * (1 - sqrt(c->scale)) * sqrt(c->scale); /* of the current */
    double steady = MEMBRANE_MS / CAPACITY * (1 - kept);                                      /* what it would add in a tick */
    double adds = (kept - current_kept) / (1 / SYNAPSE_MS - 1 / MEMBRANE_MS) / CAPACITY;      /* what one that decays in it adds */
    return mean * steady / adds * (1 - current_kept);
}

static void drive_population(struct column *c, int p) {
    struct connectome_area *area = &c->areas[p];
    str_copy(area->name, sizeof area->name, names[p]);
    area->events = external[p] * c->scale * EXTERNAL_HZ * TICK_MS / 1000;
    area->event = WEIGHT;
    area->constant = (float)lacking(c, p);
}

/* The synapses of pair k of populations. */
static void draw_projection(const void *ctx, int64_t k, int lane) {
    const struct column *c = ctx;
    const int target = (int)k / POPULATIONS, source = (int)k % POPULATIONS;
    double delay = inhibits(source) ? 0.8 : 1.5;
    uint32_t targets = c->first[target + 1] - c->first[target], sources = c->first[source + 1] - c->first[source];
    struct rng rng;
    (void)lane;
    rng_init(&rng, c->seed, RNG_WIRING, (uint32_t)(POPULATIONS * (1 + target) + source));
    for (int64_t i = c->at[k]; i < c->at[k] + c->synapses[target][source]; i++) {
        c->src[i] = c->first[source] + (uint32_t)((uint64_t)rng_u32(&rng) * sources >> 32);
        c->dst[i] = c->first[target] + (uint32_t)((uint64_t)rng_u32(&rng) * targets >> 32);
        c->weight[i] = (uint8_t)rint(clamped(WEIGHT * (1 + 0.1 * normal(&rng)), 0, 255));
        c->psp[i] = (uint8_t)psp_of(target, source);
        c->type[i] = inhibits(source);
        c->delay[i] = (uint8_t)rint(clamped(delay * (1 + 0.5 * normal(&rng)) / TICK_MS, 1, SPIKE_MOST_DELAY));
    }
}

static int column_draw(struct column *c, int64_t max_bytes, struct connectome **ret, struct err *err) {
    int rc = column_alloc(c, err);
    if (rc)
        return rc;
    lanes_for(lanes_here(), POPULATIONS * POPULATIONS, draw_projection, c);
    for (int p = 0; p < POPULATIONS; p++) {
        draw_population(c, p);
        drive_population(c, p);
    }
    const struct connectome_arrays a = {.neurons = c->first[POPULATIONS],
                                        .synapses = c->total,
                                        SAME_MEMBERS(*c, v, threshold, leak, current_leak, current_gain, refractory, area, src, dst,
                                                     weight, psp, type, delay, areas),
                                        .n_areas = POPULATIONS,
                                        .seed = c->seed};
    return connectome_new(&a, max_bytes, ret, err);
}

int column_make(double scale, uint64_t seed, int64_t max_bytes, struct connectome **ret, struct err *err) {
    OWNED(column_done) struct column c = {.scale = scale, .seed = seed};
    if (!(scale >= 0.01 && scale <= 1))
        return err_set(err, ERR_INVALID, "a column of scale %g; expected 0.01 to 1", scale);
    column_count(&c);
    int64_t bytes = connectome_bytes(c.first[POPULATIONS], c.total, true);
    if (max_bytes > 0 && bytes > max_bytes)
        return err_set(err, ERR_EXHAUSTED, "a column of scale %g takes %lld bytes; its memory budget is %lld", scale,
                       (long long)bytes, (long long)max_bytes);
    return column_draw(&c, max_bytes, ret, err);
}
