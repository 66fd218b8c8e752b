/* brrctl: the command line of brrd. */
#include <stdio.h>
#include <string.h>

#include "client/brrctl/brrctl.h"

static const struct command {
    const char *name, *arguments, *help;
    int (*run)(const struct options *o);
    int min_args, max_args;
} commands[] = {
    {"submit", "FILE [--set K=V …] [--name NAME] [--watch] [--id-file F]", "queue a job file", cmd_submit, 1, 1},
    {"jobs", "", "list jobs, newest first", cmd_jobs, 0, 0},
    {"job", "ID", "show one job", cmd_job, 1, 1},
    {"watch", "ID", "follow a job to its end; Ctrl-C detaches", cmd_watch, 1, 1},
    {"logs", "ID", "what a job said", cmd_logs, 1, 1},
    {"cancel", "ID", "end a job", cmd_cancel, 1, 1},
    {"resume", "ID [--set limits.K=V …]", "queue an interrupted, failed or cancelled job again", cmd_resume, 1, 1},
    {"score", "REF HYP", "score event files or directories; works without a daemon", cmd_score, 2, 2},
    {"devices", "", "what the daemon computes on", cmd_devices, 0, 0},
    {"version", "", "of the daemon and its libraries", cmd_version, 0, 0},
};

static void print_usage(FILE *out) {
    fputs("usage: brrctl COMMAND [ARGUMENTS] [--json]\n\n", out);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(out, "  %-8s %-60s %s\n", commands[i].name, commands[i].arguments, commands[i].help);
    fputs("\nThe daemon is found through BRR_ENDPOINT (unix:/path or host:port).\n"
          "Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 no daemon.\n"
          "example: brrctl submit configs/tiny.yaml --set data.source=file:///data/eeg --watch\n",
          out);
}

/* False with a message on stderr when an option is not understood. */
static bool parse(int argc, char **argv, struct options *o) {
    for (int i = 2; i < argc; i++) {
        const char *a = argv[i];
        bool more = i + 1 < argc;
        if (!strcmp(a, "--json")) {
            o->json = true;
        } else if (!strcmp(a, "--watch")) {
            o->watch = true;
        } else if (!strcmp(a, "--set") && more && o->n_set < 64) {
            o->set[o->n_set++] = argv[++i];
        } else if (!strcmp(a, "--name") && more) {
            o->name = argv[++i];
        } else if (!strcmp(a, "--id-file") && more) {
            o->id_file = argv[++i];
        } else if (!strncmp(a, "--", 2) || o->n_args == 64) {
            fprintf(stderr, "brrctl: unknown option '%s' of %s\n", a, argv[1]);
            return false;
        } else {
            o->args[o->n_args++] = a;
        }
    }
    return true;
}

int brrctl_fail(const struct err *err) {
    char text[800];
    fprintf(stderr, "brrctl: %s\n", err_text(err, text, sizeof text));
    if (err->code == ERR_NOT_FOUND)
        return EXIT_NOT_FOUND;
    return err->code == ERR_UNAVAILABLE ? EXIT_UNAVAILABLE : EXIT_FAILED;
}

struct conn *brrctl_connect(int *ret_exit) {
    struct conn *conn = NULL;
    struct err err;
    if (conn_open(NULL, &conn, &err))
        *ret_exit = brrctl_fail(&err);
    return conn;
}

int main(int argc, char **argv) {
    struct options o = {0};
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_usage(stdout);
        return 0;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const struct command *c = &commands[i];
        if (strcmp(argv[1], c->name))
            continue;
        if (argc > 2 && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h"))) {
            printf("usage: brrctl %s %s [--json]\n%s\n", c->name, c->arguments, c->help);
            return 0;
        }
        if (!parse(argc, argv, &o))
            return EXIT_USAGE;
        if (o.n_args < c->min_args || o.n_args > c->max_args) {
            fprintf(stderr, "usage: brrctl %s %s\n", c->name, c->arguments);
            return EXIT_USAGE;
        }
        return c->run(&o);
    }
    fprintf(stderr, "brrctl: unknown command '%s'; `brrctl help` lists them\n", argv[1]);
    return EXIT_USAGE;
}
