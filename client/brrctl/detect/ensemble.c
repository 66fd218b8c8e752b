/* ensemble: one model file of several. Works without a daemon. */
#include "detect/ensemble.h"

#include "client/brrctl/brrctl.h"
#include "client/brrctl/output.h"

/* The options of ensemble. */
struct ensemble_options {
    const char *output;
};
#define OPTIONS struct ensemble_options
static const struct argument rows[] = {
    OUTPUT("--output", output, "FILE.safetensors", "the new model file", .alias = "--out"),
};

static int cmd_ensemble(const struct arguments *o) {
    const struct ensemble_options *own = o->own;
    char sha256[DIGEST_HEX_SIZE];
    struct err err;
    if (!own->output || !str_ends(own->output, ".safetensors")) {
        fputs("brrctl: ensemble needs --out FILE.safetensors: the new model file\n", stderr);
        return EXIT_USAGE;
    }
    if (fsio_mkdirs_above(own->output, &err) || ensemble_write(o->args, o->n_args, own->output, sha256, &err))
        return brrctl_fail(&err);
    if (!o->json) {
        printf("model       %s, %d networks, SHA-256 %.12s\n", own->output, o->n_args, sha256);
        printf("next: brrctl tune %s LABELLED --out FILE chooses its thresholds and its rules for alarms\n", own->output);
        return 0;
    }
    struct json_writer *w = output_begin();
    json_begin_object(w, NULL);
    json_put_str(w, "model", own->output);
    json_put_i64(w, "members", o->n_args);
    json_put_str(w, "sha256", sha256);
    json_end(w, '}');
    output_end(w);
    return 0;
}

BRRCTL_COMMAND(ensemble, "MODEL.safetensors...", ARGUMENTS(rows), cmd_ensemble,
               "write one model file of several; works without a daemon",
               "2 to 8 model files of one shape and one input, such as trainings that differ in their seed; `checkpoint get` "
               "fetches them.\n"
               "Their networks answer together, with the mean of their log-odds, wherever a model is named: load, stream, detect, "
               "evaluate.\n"
               "It takes their time and memory together. Choose its thresholds with tune.\n"
               "example: brrctl ensemble a.safetensors b.safetensors c.safetensors --out clinic.safetensors",
               .min_args = 2, .max_args = 8);
