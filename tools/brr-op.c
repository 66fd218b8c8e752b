/* brr-op OP IN.safetensors OUT.safetensors: runs one op of the table on tensors from a file, so that any framework can be compared
 * with. brr-op --help lists the ops with their tensors and attributes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "brr-op/bridge.h"

static const struct op_row detector_row = {"detector", run_detector, "x (B,C,T); checkpoint=FILE → logits (B,T)"};

static const struct op_row *find_op(const char *name) {
    const struct op_row *tables[] = {scan_ops, layer_ops};
    for (size_t t = 0; t < 2; t++)
        for (const struct op_row *r = tables[t]; r->name; r++)
            if (!strcmp(r->name, name))
                return r;
    return strcmp(name, detector_row.name) ? NULL : &detector_row;
}

static void print_help(FILE *to) {
    fprintf(to,
            "usage: brr-op OP IN.safetensors OUT.safetensors [--device cpu|cuda] [--dtype f32|bf16] [--threads N] [--attr k=v]...\n"
            "Outputs are F32. With g_out in the file, gradients grad_<input> are written too. Ops, inputs, attributes, outputs:\n");
    for (const struct op_row *r = scan_ops; r->name; r++)
        fprintf(to, "  %-17s %s\n", r->name, r->help);
    for (const struct op_row *r = layer_ops; r->name; r++)
        fprintf(to, "  %-17s %s\n", r->name, r->help);
    fprintf(to, "  %-17s %s\n", detector_row.name, detector_row.help);
}

struct command {
    const char *positional[3];
    int n_positional;
    const char *device;
    int64_t threads;
    bool help;
};

static int add_attribute(struct bridge *b, const char *text) {
    const char *equals = strchr(text, '=');
    struct attribute *a = &b->attributes[b->n_attributes];
    if (!equals || equals == text || (size_t)(equals - text) >= sizeof a->key || b->n_attributes == BRIDGE_MAX)
        return err_set(b->err, ERR_INVALID, "--attr %s: expected key=value", text);
    memcpy(a->key, text, (size_t)(equals - text));
    a->key[equals - text] = '\0';
    if (!str_copy(a->value, sizeof a->value, equals + 1))
        return err_set(b->err, ERR_INVALID, "--attr %s: the value is too long", text);
    b->n_attributes++;
    return 0;
}

static int set_dtype(struct bridge *b, const char *name) {
    if (strcmp(name, "f32") && strcmp(name, "bf16"))
        return err_set(b->err, ERR_INVALID, "--dtype %s: expected f32 or bf16", name);
    b->dtype = strcmp(name, "bf16") ? DTYPE_F32 : DTYPE_BF16;
    return 0;
}

static int parse(int argc, char **argv, struct command *c, struct bridge *b) {
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
            c->help = true;
            continue;
        }
        if (strncmp(arg, "--", 2)) {
            if (c->n_positional == 3)
                return err_set(b->err, ERR_INVALID, "unexpected argument '%s'", arg);
            c->positional[c->n_positional++] = arg;
            continue;
        }
        if (i + 1 == argc)
            return err_set(b->err, ERR_INVALID, "%s needs a value", arg);
        const char *value = argv[++i];
        int rc = 0;
        if (!strcmp(arg, "--device"))
            c->device = strcmp(value, "cuda") ? value : "cuda:0";
        else if (!strcmp(arg, "--dtype"))
            rc = set_dtype(b, value);
        else if (!strcmp(arg, "--attr"))
            rc = add_attribute(b, value);
        else if (strcmp(arg, "--threads") || !str_to_i64(value, &c->threads) || c->threads < 0 || c->threads > 1024)
            rc = err_set(b->err, ERR_INVALID, "unknown or wrong option %s %s", arg, value);
        if (rc)
            return rc;
    }
    if (!c->help && c->n_positional != 3)
        return err_set(b->err, ERR_INVALID, "expected OP IN.safetensors OUT.safetensors; brr-op --help explains");
    return 0;
}

static int run(const struct command *c, struct bridge *b) {
    const struct op_row *op = find_op(c->positional[0]);
    if (!op)
        return err_set(b->err, ERR_NOT_FOUND, "op '%s' is unknown; brr-op --help lists the ops", c->positional[0]);
    struct safetensors *in = NULL;
    int rc = safetensors_open(c->positional[1], &in, b->err);
    if (rc)
        return rc;
    b->in = in;
    rc = device_open(c->device, (int)c->threads, &b->device, b->err);
    if (!rc)
        rc = stream_open(b->device, STREAM_NORMAL, &b->stream, b->err);
    if (!rc) {
        op->run(b);
        rc = b->rc ? b->rc : bridge_write(b, c->positional[2]);
    }
    bridge_done(b);
    safetensors_close(in);
    return rc;
}

int main(int argc, char **argv) {
    struct err err = {0};
    struct command command = {.device = "cpu"};
    struct bridge *bridge = calloc(1, sizeof *bridge);
    if (!bridge)
        return 1;
    bridge->err = &err;
    bridge->dtype = DTYPE_F32;
    int rc = parse(argc, argv, &command, bridge);
    if (!rc && command.help)
        print_help(stdout);
    else if (!rc)
        rc = run(&command, bridge);
    if (rc) {
        char text[800];
        fprintf(stderr, "brr-op: %s\n", err_text(&err, text, sizeof text));
    }
    free(bridge);
    return rc ? 1 : 0;
}
