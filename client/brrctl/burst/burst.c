/* brrctl burst: networks of spiking neurons, in files and in the daemon. */
#include "client/brrctl/burst/burst.h"

#include "client/brrctl/brrctl.h"

#define OPTIONS        struct burst_options
#define ROW_OUTPUT     OUTPUT("--output", output, "FILE", "file to write", .alias = "--out")
#define ROW_TICKS      INTEGER("--ticks", ticks, "N", "number of ticks", 1, 9e15)
#define ROW_FIRED      OUTPUT("--fired", fired, "FILE", "write the (tick, id) of every spike: .npy (int64) or .tsv")
#define ROW_EVERY_TICK FLAG("--every-tick", every_tick, "leak and refractory advance in every tick, also without input")
#define ROW_BUDGET     TEXT("--budget", budget, "BYTES", "memory that the network may use (512MiB, 4GB); default: the daemon's")
#define ROW_DEVICE                                                                                                                 \
    TEXT("--device", device, "NAME",                                                                                               \
         "the daemon's device, such as cuda:1, or a number of devices that share the network; default: the one with the most "     \
         "free memory")
static const struct argument generate_rows[] = {
    INTEGER("--neurons", neurons, "N", "neurons of the network, default 1000", 1, 4294967231.0),
    INTEGER("--synapses", synapses, "K", "synapses of each neuron, default 100", 0, 4294967295.0),
    INTEGER("--layers", layers, "L", "layers of a layered network, default 5", 2, 4096),
    INTEGER("--seed", seed, "S", "the same seed draws the same network on every machine, default 1", 0, 9e18),
    NUMBER("--inhibitory", inhibitory, "SHARE", "share of the neurons whose synapses all inhibit, default 0.2", 0, 1),
    NUMBER("--scale", scale, "S", "of a column: share of its neurons and in-degrees, default 1", 0.01, 1),
    TEXT("--weights", weights, "LOW-HIGH", "range of the weights, within 0-255, default 1-255"),
    TEXT("--delays", delays, "LOW-HIGH", "range of the delays in ticks, within 1-255, default 1"),
    INTEGER("--psp", psp, "P", "factor of every weight, default 1", 0, 255),
    NUMBER("--threshold", threshold, "V", "membrane at which neurons fire, default 1000", -3e38, 3e38),
    NUMBER("--leak", leak, "SHARE", "share of the membrane lost in a tick, default 0.1", 0, 1),
    NUMBER("--excitability", excitability, "P", "chance to fire at the threshold, default 1", 0, 1),
    INTEGER("--refractory", refractory, "TICKS", "pause after a spike, default 2", 0, 65535),
    NUMBER("--power", power, "V", "potential that the first neuron receives in every tick, default 0", -1e12, 1e12),
    ROW_OUTPUT,
};
static const struct argument output_rows[] = {
    ROW_OUTPUT,
};
static const struct argument run_rows[] = {
    ROW_TICKS,
    TEXT("--inject", inject, "FILE.tsv", "table of injections: tick, id, potential"),
    ROW_FIRED,
    OUTPUT("--membranes", membranes, "FILE.npy", "write the membranes of all neurons (float32)"),
    INTEGER("--membranes-every", membranes_every, "N", "after every N ticks, default 1", 1, 9e15),
    OUTPUT("--plot", plot, "FILE", "draw the spikes as a raster; .svg, .png or .pdf"),
    TEXT("--keep", keep, "NAME", "leave the network in the daemon under this name"),
    ROW_EVERY_TICK,
    ROW_BUDGET,
    ROW_DEVICE,
};
static const struct argument create_rows[] = {
    TEXT("--name", name, "NAME", "name of the network"),
    ROW_EVERY_TICK,
    ROW_BUDGET,
    ROW_DEVICE,
};
static const struct argument fired_rows[] = {
    ROW_TICKS,
    ROW_FIRED,
};
static const struct argument observe_rows[] = {
    ROW_TICKS,
    ROW_FIRED,
    INTEGER("--queue", frames, "N", "frames that may wait for this observer, default 4096", 1, 1e6),
};
static const struct argument_table other_table = {.rows = NULL, .size = sizeof(struct burst_options)},
                                   info_table = {.rows = NULL, .size = sizeof(struct burst_options), .local = true};

static const struct command_verb burst_verbs[] = {
    {"generate", "random|ring|layered|column", ARGUMENTS(generate_rows, .local = true), burst_generate, 2},
    {"info", "FILE", &info_table, burst_info, 2},
    {"plot", "FILE FIRED", ARGUMENTS(output_rows, .local = true), burst_plot, 3},
    {"run", "FILE", ARGUMENTS(run_rows), burst_run, 2},
    {"create", "FILE", ARGUMENTS(create_rows), burst_create, 2},
    {"list", "", &other_table, burst_list, 1},
    {"inject", "NAME FILE.tsv", &other_table, burst_inject, 3},
    {"step", "NAME", ARGUMENTS(fired_rows), burst_step, 2},
    {"observe", "NAME", ARGUMENTS(observe_rows), burst_observe, 2},
    {"ledger", "NAME", ARGUMENTS(fired_rows), burst_ledger, 2},
    {"snapshot", "NAME", ARGUMENTS(output_rows), burst_snapshot, 2},
    {"restore", "NAME FILE", &other_table, burst_restore, 3},
    {"destroy", "NAME", &other_table, burst_destroy, 2},
    {.name = NULL},
};

BRRCTL_COMMAND(
    burst, "generate|info|plot|run|create|list|inject|step|observe|ledger|snapshot|restore|destroy ...", &arguments_none, NULL,
    "networks of spiking neurons: draw, run, plot, observe",
    "Without a daemon:\n"
    "  generate random|ring|layered|column --out FILE   draw a network from a seed; targets anywhere, the next neurons, the "
    "next layer; the cortical column of Potjans and Diesmann\n"
    "  info FILE                    synapses, degrees, areas, memory and numbers of a network or snapshot\n"
    "  plot FILE FIRED --out FILE   a raster of spikes that a run or a job wrote (.npy or .tsv)\n"
    "  SONATA networks, and connectomes and genomes of FEAGI: python3 -m brr.networks import FILE --out NET (docs/burst.md)\n"
    "In the daemon:\n"
    "  run FILE --ticks N           create, inject (--inject FILE.tsv), run, write spikes (--fired) and a raster (--plot), "
    "destroy;\n"
    "                               --keep NAME leaves the network there; Ctrl-C leaves neither network nor files\n"
    "  create FILE [--name N]       a network of a file or snapshot; it lives until it is destroyed or the daemon ends\n"
    "  list                         all networks\n"
    "  inject NAME FILE.tsv         potentials for ticks to come: columns tick, id, potential\n"
    "  step NAME --ticks N          run ticks; --fired writes their spikes\n"
    "  observe NAME                 print each tick as any client steps the network, until Ctrl-C, or for --ticks N\n"
    "  ledger NAME                  who fired in the newest ticks (--ticks N of the 1,024 that are kept); --fired writes them\n"
    "  snapshot NAME --out FILE     network and state; `create` and `run` go on from there\n"
    "  restore NAME FILE            the network becomes that of a snapshot; name, options and observers stay\n"
    "  destroy NAME                 end it\n"
    "example: brrctl burst generate random --neurons 10000 --synapses 100 --seed 7 --power 2000 --out net.safetensors\n"
    "example: brrctl burst run net.safetensors --ticks 500 --inject in.tsv --fired out.npy --plot raster.svg",
    .verbs = burst_verbs);
