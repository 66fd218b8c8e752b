#include "client/brrctl/arguments.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum kind { FLAG, TEXT, CHOICE, NUMBER, INTEGER, LIST, ASSIGNMENT };
#define AT(field) offsetof(struct arguments, field)

static const struct row {
    const char *name;
    enum kind kind;
    size_t offset;
    const char *value, *help;
    double min, max; /* numbers */
} rows[] = {
    {"--json", FLAG, AT(json), "", "print one JSON object per line, for programs", 0, 0},
    {"--endpoint", TEXT, AT(endpoint), "E", "unix:/path or host:port; default: environment BRR_ENDPOINT", 0, 0},
    {"--tls-ca", TEXT, AT(tls_ca), "FILE", "CA of the daemon's certificate; enables TLS for host:port; default BRR_TLS_CA", 0, 0},
    {"--token-file", TEXT, AT(token_file), "FILE", "this client's token; default BRR_TOKEN_FILE", 0, 0},
    {"--tls-cert", TEXT, AT(tls_cert), "FILE", "this client's certificate; default BRR_TLS_CERT", 0, 0},
    {"--tls-key", TEXT, AT(tls_key), "FILE", "private key of this client; default BRR_TLS_KEY", 0, 0},
    {"--config", TEXT, AT(config), "FILE", "daemon.yaml, for store://NAME URLs", 0, 0},
    {"--region", TEXT, AT(region), "R", "region of the bucket; default AWS_REGION, else us-east-1", 0, 0},
    {"--credentials", TEXT, AT(credentials), "FROM", "env, imds, file:PATH#profile or systemd:NAME; docs/stores.md", 0, 0},
    {"--anonymous", FLAG, AT(anonymous), "", "unsigned requests, for public buckets", 0, 0},
    {"--path-style", FLAG, AT(path_style), "", "ENDPOINT/BUCKET instead of BUCKET.ENDPOINT", 0, 0},
    {"--requester-pays", FLAG, AT(requester_pays), "", "agree to pay for requests and transfers", 0, 0},
    {"--stall", INTEGER, AT(stall_s), "S", "restart a transfer after this many seconds without data, default 20", 1, 3600},
    {"--set", ASSIGNMENT, AT(set), "K=V", "override a key of the job file; may be repeated", 0, 0},
    {"--name", TEXT, AT(name), "NAME", "name of the job, upload, token or client", 0, 0},
    {"--watch", FLAG, AT(watch), "", "keep showing changes; Ctrl-C detaches", 0, 0},
    {"--id-file", TEXT, AT(id_file), "FILE", "write the job's id to this file", 0, 0},
    {"--follow", FLAG, AT(follow), "",
     "keep reading what is appended: to a log until the job ends, to a recording until --idle-timeout", 0, 0},
    {"--idle-timeout", NUMBER, AT(idle_s), "S",
     "end after this many seconds without new data; default 120 with --follow, never on standard input", 0.1, 86400},
    {"--tail", INTEGER, AT(tail), "N", "only the last N lines", 1, 1e6},
    {"--model", TEXT, AT(model), "REF", "served name, job:ID, store://NAME/KEY or a model file", 0, 0},
    {"--on", NUMBER, AT(on), "P", "probability that begins an event or alarm; default: the model's", 0.0001, 0.9999},
    {"--off", NUMBER, AT(off), "P", "probability that ends it; default: the model's, but at most --on", 0.0001, 0.9999},
    {"--target-fa", NUMBER, AT(target_fa), "N", "false alarms per 24 h to stay within, if some thresholds do; default: none", 0,
     1000},
    {"--output", TEXT, AT(output), "PATH", "write events or results to this file or folder", 0, 0},
    {"--out", TEXT, AT(output), "PATH", "same as --output", 0, 0},
    {"--probabilities", TEXT, AT(probabilities), "FILE", "write the record trace at 256 Hz: .npy (float32) or .tsv", 0, 0},
    {"--probs", TEXT, AT(probabilities), "FILE", "same as --probabilities", 0, 0},
    {"--suppression", TEXT, AT(suppression), "FILE.tsv",
     "write burst suppression, once a second: of the recording and of each channel", 0, 0},
    {"--plot", TEXT, AT(plot), "FILE.svg", "draw a recording with probability and events, or the spikes of a network", 0, 0},
    {"--reference", TEXT, AT(reference), "TSV", "reference events; default: the labels beside the recording", 0, 0},
    {"--alarms", FLAG, AT(alarms), "", "print alarms as they go on and off", 0, 0},
    {"--alarm-hop", NUMBER, AT(alarm_hop_s), "S", "seconds between alarm decisions, a divisor of the model's hop", 0.01, 3600},
    {"--realtime", NUMBER, AT(realtime), "FACTOR", "speed: 1 = as recorded, 10 = ten times as fast; default: as fast as possible",
     0.001, 1e6},
    {"--chunk-samples", INTEGER, AT(chunk_samples), "N", "samples per message; default 8 s, with --realtime 0.25 s", 1, 1e7},
    {"--no-resume", FLAG, AT(no_resume), "", "end at the first cut of the connection", 0, 0},
    {"--parallel", INTEGER, AT(parallel), "N", "recordings processed at the same time, default 2", 1, 16},
    {"--once", FLAG, AT(once), "", "print once and exit", 0, 0},
    {"--interval", NUMBER, AT(interval_s), "S", "seconds between updates, default 1", 0.1, 60},
    {"--events", FLAG, AT(events), "", "list every event with its outcome", 0, 0},
    {"--host", LIST, AT(set), "NAME", "name or address of the daemon's machine; may be repeated", 0, 0},
    {"--role", CHOICE, AT(role), "read|stream|submit|admin", "role of the token; each role includes the ones before it", 0, 0},
    {"--until", TEXT, AT(until), "DATE", "last day (YYYY-MM-DD) on which the token is valid", 0, 0},
    {"--montage", TEXT, AT(montage), "M", "referential-19, bipolar-18 or custom:LABEL,LABEL,...", 0, 0},
    {"--notch", NUMBER, AT(notch_hz), "HZ", "mains filter: 0, 50 or 60", 0, 60},
    {"--window", NUMBER, AT(window_s), "S", "length of a window in seconds", 1, 600},
    {"--hop", NUMBER, AT(hop_s), "S", "seconds between window starts", 0.01, 600},
    {"--at", NUMBER, AT(at), "C", "a concentration, in the unit of the model's table", -1e300, 1e300},
    {"--csv", TEXT, AT(csv), "FILE", "table to write", 0, 0},
    {"--first", INTEGER, AT(first), "N", "first window, from 0", 0, 1e12},
    {"--count", INTEGER, AT(count), "N", "number of windows", 1, 1e12},
    {"--labels", CHOICE, AT(labels), "auto|bids-tsv|tusz-csv|tusz-csv_bi|chbmit-summary|edf-annotations", "format of the labels", 0,
     0},
    {"--neurons", INTEGER, AT(neurons), "N", "neurons of the network, default 1000", 1, 4294967231.0},
    {"--synapses", INTEGER, AT(synapses), "K", "synapses of each neuron, default 100", 0, 4294967295.0},
    {"--layers", INTEGER, AT(layers), "L", "layers of a layered network, default 5", 2, 4096},
    {"--seed", INTEGER, AT(seed), "S", "the same seed draws the same network on every machine, default 1", 0, 9e18},
    {"--inhibitory", NUMBER, AT(inhibitory), "SHARE", "share of the neurons whose synapses all inhibit, default 0.2", 0, 1},
    {"--weights", TEXT, AT(weights), "LOW-HIGH", "range of the weights, within 0-255, default 1-255", 0, 0},
    {"--psp", INTEGER, AT(psp), "P", "factor of every weight, default 1", 0, 255},
    {"--threshold", NUMBER, AT(threshold), "V", "membrane at which neurons fire, default 1000", -3e38, 3e38},
    {"--leak", NUMBER, AT(leak), "SHARE", "share of the membrane lost in a tick, default 0.1", 0, 1},
    {"--excitability", NUMBER, AT(excitability), "P", "chance to fire at the threshold, default 1", 0, 1},
    {"--refractory", INTEGER, AT(refractory), "TICKS", "pause after a spike, default 2", 0, 65535},
    {"--power", NUMBER, AT(power), "V", "potential that the first neuron receives in every tick, default 0", -1e12, 1e12},
    {"--ticks", INTEGER, AT(ticks), "N", "number of ticks", 1, 9e15},
    {"--inject", TEXT, AT(inject), "FILE.tsv", "table of injections: tick, id, potential", 0, 0},
    {"--fired", TEXT, AT(fired), "FILE", "write the (tick, id) of every spike: .npy (int64) or .tsv", 0, 0},
    {"--keep", TEXT, AT(keep), "NAME", "leave the network in the daemon under this name", 0, 0},
    {"--every-tick", FLAG, AT(every_tick), "", "leak and refractory advance in every tick, also without input", 0, 0},
    {"--budget", TEXT, AT(budget), "BYTES", "memory that the network may use (512MiB, 4GB); default: the daemon's", 0, 0},
    {"--queue", INTEGER, AT(frames), "N", "frames that may wait for this observer, default 4096", 1, 1e6},
    {"--unlabeled", CHOICE, AT(unlabeled), "error|background|skip", "treatment of recordings without labels", 0, 0},
};
enum { N_ROWS = sizeof rows / sizeof *rows, COMMON = 6 };
_Static_assert((int)N_ROWS <= (int)ARGUMENTS_MAX_OPTIONS, "struct arguments notes each option that was given");

const char *arguments_nearest(const char *word, const void *names, int n, unsigned long stride) {
    const char *best = NULL;
    int nearest = 4; /* farther ones are no help */
    for (int i = 0; i < n; i++) {
        const char *name = *(const char *const *)((const char *)names + (unsigned long)i * stride);
        int distance = str_distance(word, name);
        if (distance < nearest && distance < (int)strlen(name)) {
            nearest = distance;
            best = name;
        }
    }
    return best;
}

/* True if the list "--a --b" holds the name. */
static bool listed(const char *list, char separator, const char *name) {
    size_t len = strlen(name);
    for (const char *at = list; len && (at = strstr(at, name)); at += len)
        if ((at == list || at[-1] == separator) && (at[len] == separator || !at[len]))
            return true;
    return false;
}

static bool accepted(const char *takes, int row) { return takes && (row < COMMON || listed(takes, ' ', rows[row].name)); }

void arguments_each(const char *takes, arguments_visit_fn *visit, void *ctx) {
    for (int pass = 0; pass < 2; pass++) /* the command's own first */
        for (int i = pass ? 0 : COMMON; i < (pass ? COMMON : N_ROWS); i++)
            if (accepted(takes, i))
                visit(ctx, rows[i].name, rows[i].value, rows[i].help);
}

void arguments_choices(arguments_visit_fn *visit, void *ctx) {
    for (int i = 0; i < N_ROWS; i++)
        if (rows[i].kind == CHOICE)
            visit(ctx, rows[i].name, rows[i].value, rows[i].help);
}

static const struct row *find_row(const char *word, size_t len, const char *takes) {
    for (int i = 0; i < N_ROWS; i++)
        if (strlen(rows[i].name) == len && !strncmp(rows[i].name, word, len) && accepted(takes, i))
            return &rows[i];
    return NULL;
}

const char *arguments_beyond(const struct arguments *a, const char *takes) {
    for (int i = COMMON; i < N_ROWS; i++)
        if (a->given[i] && !accepted(takes, i))
            return rows[i].name;
    return NULL;
}

bool arguments_takes_value(const char *word) {
    const struct row *r = find_row(word, strlen(word), "");
    return r && r->kind != FLAG;
}

static bool unknown(const char *command, const char *word, const char *takes) {
    const char *names[N_ROWS];
    int n = 0;
    for (int i = 0; i < N_ROWS; i++)
        if (accepted(takes, i))
            names[n++] = rows[i].name;
    const char *nearest = arguments_nearest(word, names, n, sizeof *names);
    fprintf(stderr, "brrctl: %s has no option '%s'", command, word);
    fprintf(stderr, nearest ? "; did you mean %s?\n" : "; `brrctl %s --help` lists them\n", nearest ? nearest : command);
    return false;
}

static bool store_number(const struct row *r, const char *value, void *field) {
    int64_t i = 0;
    double f = 0;
    bool ok = r->kind == INTEGER ? str_to_i64(value, &i) : str_to_f64(value, &f);
    if (r->kind == INTEGER)
        f = (double)i;
    if (!ok || f < r->min || f > r->max) {
        if (r->kind == INTEGER)
            fprintf(stderr, "brrctl: %s is '%s'; expected a whole number from %.0f to %.0f\n", r->name, value, r->min, r->max);
        else
            fprintf(stderr, "brrctl: %s is '%s'; expected a number from %g to %g\n", r->name, value, r->min, r->max);
        return false;
    }
    if (r->kind == INTEGER)
        *(int64_t *)field = i;
    else
        *(double *)field = f;
    return true;
}

static bool append(struct arguments *a, const struct row *r, const char *value) {
    if (a->n_set == ARGUMENTS_MAX_SET) {
        fprintf(stderr, "brrctl: %d is the maximum number of %s options\n", ARGUMENTS_MAX_SET, r->name);
        return false;
    }
    a->set[a->n_set++] = value;
    return true;
}

static bool store(struct arguments *a, const struct row *r, const char *value) {
    void *field = (char *)a + r->offset;
    a->given[r - rows] = true;
    switch (r->kind) {
    case FLAG:
        *(bool *)field = true;
        return true;
    case CHOICE:
        if (!listed(r->value, '|', value)) {
            fprintf(stderr, "brrctl: %s is '%s'; expected %s\n", r->name, value, r->value);
            return false;
        }
        *(const char **)field = value;
        return true;
    case TEXT:
        *(const char **)field = value;
        return true;
    case ASSIGNMENT:
        if (!strchr(value, '=') || *value == '=') {
            fprintf(stderr, "brrctl: %s is '%s'; expected KEY=VALUE\n", r->name, value);
            return false;
        }
        return append(a, r, value);
    case LIST:
        return append(a, r, value);
    case NUMBER:
    case INTEGER:
        break;
    }
    return store_number(r, value, field);
}

/* One word that begins with "--": also "--name=value". *i moves past a value of its own. */
static bool take(int argc, char **argv, int *i, const char *takes, struct arguments *a) {
    const char *word = argv[*i], *equals = strchr(word, '=');
    const struct row *r = find_row(word, equals ? (size_t)(equals - word) : strlen(word), takes);
    if (!r)
        return unknown(argv[1], word, takes);
    if (r->kind == FLAG && equals) {
        fprintf(stderr, "brrctl: %s takes no value\n", r->name);
        return false;
    }
    if (r->kind == FLAG)
        return store(a, r, NULL);
    if (!equals && *i + 1 == argc) {
        fprintf(stderr, "brrctl: %s needs a value: %s\n", r->name, r->value);
        return false;
    }
    return store(a, r, equals ? equals + 1 : argv[++*i]);
}

bool arguments_parse(int argc, char **argv, const char *takes, struct arguments *ret) {
    bool plain = false; /* after "--" everything is a word */
    *ret = (struct arguments){.at = NAN,
                              .on = NAN,
                              .off = NAN,
                              .target_fa = NAN,
                              .realtime = NAN,
                              .alarm_hop_s = NAN,
                              .interval_s = NAN,
                              .notch_hz = NAN,
                              .window_s = NAN,
                              .hop_s = NAN,
                              .idle_s = NAN,
                              .inhibitory = NAN,
                              .threshold = NAN,
                              .leak = NAN,
                              .excitability = NAN,
                              .power = NAN,
                              .chunk_samples = -1,
                              .tail = -1,
                              .parallel = -1,
                              .first = -1,
                              .count = -1,
                              .stall_s = -1,
                              .neurons = -1,
                              .synapses = -1,
                              .layers = -1,
                              .seed = -1,
                              .psp = -1,
                              .refractory = -1,
                              .ticks = -1,
                              .frames = -1};
    if (!(ret->args = calloc((size_t)argc + 1, sizeof *ret->args))) {
        fputs("brrctl: out of memory\n", stderr);
        return false;
    }
    for (int i = 2; i < argc; i++) {
        if (!plain && !strcmp(argv[i], "--"))
            plain = true;
        else if (plain || argv[i][0] != '-' || !argv[i][1])
            ret->args[ret->n_args++] = argv[i];
        else if (!take(argc, argv, &i, takes, ret))
            return false;
    }
    return true;
}

void arguments_done(struct arguments *a) { free(a->args); }
