/* brrctl burst: networks of spiking neurons, in files and in the daemon. */
#include "client/brrctl/burst.h"

#include <stdio.h>
#include <string.h>

#include "client/brrctl/brrctl.h"

static const struct verb {
    const char *name, *words, *takes;
    int (*run)(const struct arguments *o);
    int n_args; /* with the verb */
} verbs[] = {
    {"generate", "random|ring|layered",
     "--neurons --synapses --layers --seed --inhibitory --weights --psp --threshold --leak --excitability --refractory --power "
     "--output --out",
     burst_generate, 2},
    {"info", "FILE", "", burst_info, 2},
    {"plot", "FILE FIRED", "--output --out", burst_plot, 3},
    {"run", "FILE", "--ticks --inject --fired --plot --keep --every-tick --budget", burst_run, 2},
    {"create", "FILE", "--name --every-tick --budget", burst_create, 2},
    {"list", "", "", burst_list, 1},
    {"inject", "NAME FILE.tsv", "", burst_inject, 3},
    {"step", "NAME", "--ticks --fired", burst_step, 2},
    {"observe", "NAME", "--ticks --fired --queue", burst_observe, 2},
    {"snapshot", "NAME", "--output --out", burst_snapshot, 2},
    {"restore", "NAME FILE", "", burst_restore, 3},
    {"destroy", "NAME", "", burst_destroy, 2},
};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

bool burst_verb(const char *word, const char **ret_words, const char **ret_takes) {
    for (int i = 0; i < N_VERBS; i++)
        if (!strcmp(verbs[i].name, word)) {
            *ret_words = verbs[i].words;
            *ret_takes = verbs[i].takes;
            return true;
        }
    return false;
}

static int usage(const struct arguments *o, const struct verb *v, const char *option) {
    const char *gap = *v->words ? " " : "";
    if (option)
        fprintf(stderr, "brrctl: burst %s has no option '%s'; `brrctl burst %s --help` lists them\n", v->name, option, v->name);
    else if (o->n_args < v->n_args)
        fprintf(stderr, "brrctl: burst %s needs %s; see `brrctl burst %s --help`\n", v->name, v->words, v->name);
    else
        fprintf(stderr, "brrctl: unexpected argument '%s'; expected brrctl burst %s%s%s\n", o->args[v->n_args], v->name, gap,
                v->words);
    return EXIT_USAGE;
}

int cmd_burst(const struct arguments *o) {
    for (int i = 0; i < N_VERBS; i++) {
        if (strcmp(verbs[i].name, o->args[0]) != 0)
            continue;
        const char *option = arguments_beyond(o, verbs[i].takes);
        return option || o->n_args != verbs[i].n_args ? usage(o, &verbs[i], option) : verbs[i].run(o);
    }
    const char *nearest = arguments_nearest(o->args[0], &verbs[0].name, N_VERBS, sizeof *verbs);
    fprintf(stderr, "brrctl: unknown burst command '%s'; ", o->args[0]);
    fprintf(stderr, nearest ? "did you mean %s?\n" : "`brrctl burst --help` lists the commands%s\n", nearest ? nearest : "");
    return EXIT_USAGE;
}
