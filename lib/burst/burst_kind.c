#include "burst/burst_kind.h"

#include "base/counted.h"
#include "burst/wiring.h"
#include "kernels/spike.h"
#include "work/jobfile.h"
#include "work/task.h"

#define C(field) offsetof(struct burst_config, field)

static const struct option rows[] = {
    {"network.file", OPTION_PATH, C(file), "null", 0, 0, NULL,
     "network file or snapshot (docs/burst.md); null = a network generated from the following keys"},
    {"network.generate", OPTION_ENUM, C(generate), "random", 0, 0, "random|ring|layered",
     "random: targets from all neurons; ring: the next neurons; layered: targets from the next layer, an area per layer"},
    {"network.neurons", OPTION_I64, C(neurons), "1000", 1, SPIKE_MOST_NEURONS, NULL, "neurons of a generated network"},
    {"network.synapses", OPTION_I64, C(synapses), "100", 0, 1e6, NULL, "synapses of each neuron"},
    {"network.layers", OPTION_I64, C(layers), "5", 2, 4096, NULL, "layers of generate: layered"},
    {"network.seed", OPTION_I64, C(seed), "1", 0, 4294967295.0, NULL, "seed of the generated network"},
    {"network.inhibitory", OPTION_F64, C(inhibitory), "0.2", 0, 1, NULL, "share of neurons whose synapses are inhibitory"},
    {"network.weights", OPTION_F64S, C(weights), "[1, 255]", 0, 255, NULL, "lowest and highest weight of a synapse, whole numbers"},
    {"network.delays", OPTION_F64S, C(delays), "[1, 1]", 1, SPIKE_MOST_DELAY, NULL,
     "shortest and longest delay of a synapse in ticks, whole numbers"},
    {"network.psp", OPTION_I64, C(psp), "1", 0, 255, NULL, "postsynaptic potential of all synapses"},
    {"network.threshold", OPTION_F64, C(threshold), "1000", -1e9, 1e9, NULL, "threshold of all neurons"},
    {"network.leak", OPTION_F64, C(leak), "0.1", 0, 1, NULL, "share of its membrane that a neuron loses in a tick with input"},
    {"network.excitability", OPTION_F64, C(excitability), "1", 0, 1, NULL, "chance to fire at the threshold"},
    {"network.refractory", OPTION_I64, C(refractory), "2", 0, 65535, NULL, "ticks with input that are ignored after a spike"},
    {"network.power", OPTION_F64, C(power), "0", -1e9, 1e9, NULL, "potential that the first neuron receives in every tick"},
    {"network.every_tick", OPTION_BOOL, C(every_tick), "false", 0, 0, NULL,
     "leak and refractory advance in every tick, also without input"},
    {"input.file", OPTION_PATH, C(injections), "null", 0, 0, NULL, "table of injections: tick, id, potential"},
    {"input.recording", OPTION_PATH, C(recording), "null", 0, 0, NULL,
     "EDF or BDF file: channel c of the montage injects into neuron 2c when it rises by input.delta_uv, into 2c + 1 when it falls"},
    {"input.montage", OPTION_STRING, C(montage), "referential-19", 0, 0, NULL,
     "channels of input.recording: referential-19, bipolar-18, or custom:LABEL,LABEL,…"},
    {"input.notch_hz", OPTION_F64, C(notch_hz), "60", 0, 60, NULL, "mains notch for input.recording: 0 (off), 50 or 60"},
    {"input.delta_uv", OPTION_F64, C(delta_uv), "20", 0.1, 60000, NULL, "microvolt between two injections of a channel"},
    {"input.samples_per_tick", OPTION_I64, C(samples_per_tick), "1", 1, 256000, NULL,
     "samples of input.recording in a tick, at 256 Hz"},
    {"input.random", OPTION_F64, C(random_rate), "0", 0, 1, NULL,
     "random injections for each neuron in each tick, on average; 0 = none"},
    {"input.potential", OPTION_F64, C(potential), "1000", -1e9, 1e9, NULL,
     "potential of one injection of input.random or input.recording"},
    {"input.seed", OPTION_I64, C(random_seed), "1", 0, 4294967295.0, NULL, "seed of random injections"},
    {"ticks", OPTION_I64, C(ticks), "1000", 1, 1e12, NULL, "ticks to run"},
    {"output.fired", OPTION_ENUM, C(fired), "npy", 0, 0, "npy|tsv|none", "file with tick and id of each spike"},
    {"output.rates_every", OPTION_I64, C(rates_every), "10", 0, 1e9, NULL,
     "ticks averaged in a row of rates.tsv, spikes per neuron and tick of each area; 0 = no file"},
    {"output.membranes_every", OPTION_I64, C(membranes_every), "0", 0, 1e9, NULL,
     "ticks between two rows of membranes.npy; 0 = no file"},
    {"output.ledger", OPTION_I64, C(ledger), "0", 0, 1e6, NULL,
     "ledger.npy has the spikes of so many of the newest ticks, at most 16777216 spikes; 0 = no file"},
};
static const struct option_table own_keys = OPTION_TABLE(rows);
static const struct kind_keys keys[] = {{&own_keys, 0}, {NULL, 0}};

/* Keys of a generated network that are set beside network.file. */
static void note_unused(struct jobfile *job, struct arena *arena) {
    const char *first = NULL;
    for (size_t i = 1; i < own_keys.count && !first && str_starts(rows[i].name, "network."); i++)
        if (strcmp(rows[i].name, "network.every_tick") != 0 && yaml_path(job->root, rows[i].name))
            first = rows[i].name;
    const char *text =
        first ? arena_printf(arena, "%s and other keys of generated networks do nothing: network.file is set", first) : NULL;
    if (text)
        jobfile_note(job, text);
}

/* The limits of generated networks (wiring_new), with the names of the keys. */
static int check_size(const struct jobfile *job, const struct burst_config *c, struct err *err) {
    if (c->synapses > c->neurons)
        return err_set(err, ERR_INVALID, "%s: network.synapses: %lld of each neuron are more than network.neurons (%lld)",
                       job->file, (long long)c->synapses, (long long)c->neurons);
    if (c->synapses > (int64_t)UINT32_MAX / c->neurons)
        return err_set(err, ERR_INVALID,
                       "%s: network.neurons (%lld) with network.synapses (%lld) each are %.3g synapses; expected fewer than 2^32",
                       job->file, (long long)c->neurons, (long long)c->synapses, (double)c->neurons * (double)c->synapses);
    if (c->generate == WIRING_LAYERED && c->layers > c->neurons)
        return err_set(err, ERR_INVALID, "%s: network.layers is %lld; expected at most network.neurons (%lld)", job->file,
                       (long long)c->layers, (long long)c->neurons);
    return 0;
}

static int check_range(const struct jobfile *job, const char *what, const struct option_numbers *range, struct err *err) {
    const double *w = range->items;
    if (range->count == 2 && w[0] <= w[1] && w[0] == floor(w[0]) && w[1] == floor(w[1]))
        return 0;
    return err_set(err, ERR_INVALID, "%s: network.%s: expected the lowest and the highest, whole numbers such as [1, 255]",
                   job->file, what);
}

static int read_config(struct jobfile *job, struct arena *arena, struct err *err) {
    struct burst_config *c = job->config;
    int rc;
    if ((rc = check_range(job, "weights", &c->weights, err)) || (rc = check_range(job, "delays", &c->delays, err)))
        return rc;
    if (c->recording && c->notch_hz != 0 && c->notch_hz != 50 && c->notch_hz != 60)
        return err_set(err, ERR_INVALID, "%s: input.notch_hz is %g; expected 0, 50 or 60", job->file, c->notch_hz);
    if (!c->file)
        return check_size(job, c, err);
    note_unused(job, arena);
    return 0;
}

static void summarise(const struct json *result, char *buf, size_t size) {
    str_format(buf, size, "%s, %s (%.4g per neuron and tick), %.0f ticks/s",
               counted(json_i64(json_get(result, "ticks"), 0), "tick").text,
               counted(json_i64(json_get(result, "fired"), 0), "spike").text, json_f64(json_get(result, "mean_rate"), NAN),
               json_f64(json_get(result, "ticks_per_s"), NAN));
}

static const double tick_buckets[] = {.00001, .00002, .00005, .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5};
static const struct kind_metric metrics[] = {
    {KIND_METRIC_STEPS, 0, COUNTER("brrd_burst_ticks_total", "Ticks of spiking networks, of jobs and RPC.", "device")},
    {KIND_METRIC_STEP_TIME, 0,
     HISTOGRAM("brrd_burst_tick_seconds", "Mean duration of a tick, observed once per slice of ticks.", "device", tick_buckets)},
    {KIND_METRIC_VALUE, offsetof(struct task_progress, figures[1].value),
     GAUGE("brrd_burst_job_ticks_per_second", "Ticks per second of a running job.", "job_id")},
    {0, 0, {0}},
};

const struct task_kind kind_burst = {
    .name = "burst",
    .help = "runs a network of spiking neurons for a number of ticks",
    .keys = keys,
    .step = "tick",
    .checkpoints = true,
    .recordings = KIND_NO_RECORDINGS,
    .fixed = "its input is a table of injections (input.file), a recording (input.recording) or random (input.random)",
    .config_bytes = sizeof(struct burst_config),
    .config = read_config,
    .metrics = metrics,
    .summary = summarise,
};
